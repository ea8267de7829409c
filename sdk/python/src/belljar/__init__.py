"""Client of the Belljar service: live, isolated Python sessions.

    from belljar import Belljar

    with Belljar() as b:
        s = b.session()
        print(s.run("6 * 7").value)

`AsyncBelljar` is the same, awaited.
"""

from . import models
from ._async import AsyncBelljar, AsyncEvents, AsyncFiles, AsyncRun, AsyncSession, AsyncWatch
from ._async_commands import AsyncCommand, AsyncCommands
from ._core import (
    Budget,
    Checkpoints,
    CommandResult,
    Event,
    Isolation,
    Limits,
    OnFailure,
    Policy,
    RunEvent,
    RunFile,
    Share,
    Tool,
    WhenBusy,
)
from ._errors import (
    BelljarError,
    CellFailed,
    NotFound,
    RateLimited,
    SessionBusy,
    SessionEnded,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from ._shown import Column, Table
from ._sync import Belljar, Events, Files, Run, Session, Watch
from ._sync_commands import Command, Commands
from .models import Display, Outcome

__all__ = [
    "AsyncBelljar",
    "AsyncCommand",
    "AsyncCommands",
    "AsyncEvents",
    "AsyncFiles",
    "AsyncRun",
    "AsyncSession",
    "AsyncWatch",
    "Belljar",
    "BelljarError",
    "Budget",
    "CellFailed",
    "Checkpoints",
    "Column",
    "Command",
    "CommandResult",
    "Commands",
    "Display",
    "Event",
    "Events",
    "Files",
    "Isolation",
    "Limits",
    "NotFound",
    "OnFailure",
    "Outcome",
    "Policy",
    "RateLimited",
    "Run",
    "RunEvent",
    "RunFile",
    "Session",
    "SessionBusy",
    "SessionEnded",
    "Share",
    "Table",
    "Tool",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "Watch",
    "WhenBusy",
    "models",
]

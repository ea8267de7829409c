"""Client of the Belljar service: live, isolated Python sessions.

    from belljar import Belljar

    with Belljar() as b:
        s = b.session()
        print(s.run("6 * 7").value)

`AsyncBelljar` is the same, awaited.
"""

from . import models
from ._async import AsyncBelljar, AsyncEvents, AsyncFiles, AsyncRun, AsyncSession
from ._core import Budget, Checkpoints, Event, Limits, OnFailure, Policy, RunEvent, RunFile, Tool, WhenBusy
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
from ._sync import Belljar, Events, Files, Run, Session
from .models import Display, Outcome

__all__ = [
    "AsyncBelljar",
    "AsyncEvents",
    "AsyncFiles",
    "AsyncRun",
    "AsyncSession",
    "Belljar",
    "BelljarError",
    "Budget",
    "CellFailed",
    "Checkpoints",
    "Display",
    "Event",
    "Events",
    "Files",
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
    "Tool",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "WhenBusy",
    "models",
]

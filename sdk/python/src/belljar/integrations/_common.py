"""What the adapters share: paths, exit codes, and the errors of files."""

from __future__ import annotations

import errno
import os
import posixpath
import signal
from typing import TypedDict

from .. import _core, models
from .._core import CommandResult
from .._errors import BelljarError

WORKSPACE = "/workspace"
ROOTS = (WORKSPACE, "/home/user", "/tmp")
# The exit code of `timeout` of coreutils, which frameworks and models know.
TIMED_OUT = 124
# The exit code of a shell for a program that does not exist.
NOT_FOUND = 127


class SessionOptions(TypedDict, total=False):
    """Options of the sessions that an adapter starts, as `AsyncBelljar.session` takes them."""

    limits: _core.Limits
    allow: list[str]
    packages: list[str]
    mounts: list[str]
    environment: str
    isolation: _core.Isolation
    name: str
    metadata: dict[str, str]
    ttl: int
    variables: dict[str, str]
    secrets: dict[str, str]


def missing(extra: str, error: ImportError) -> ImportError:
    """The error of an adapter whose framework is missing, or has another version."""
    module = extra.replace("-", "_")
    return ImportError(
        f"`belljar.integrations.{module}` cannot be imported: {error}\nhint: pip install 'belljar[{extra}]'"
    )


def inside(path: str) -> str:
    """An absolute path in the workspace or `/tmp`. Others are refused."""
    whole = posixpath.normpath(posixpath.join(WORKSPACE, path))
    if any(whole == root or whole.startswith(f"{root}/") for root in ROOTS):
        return whole
    raise PermissionError(errno.EACCES, f"outside the workspace: only {WORKSPACE} and /tmp can be reached", path)


def exit_code(result: CommandResult) -> int | None:
    """The exit code as a shell has it: 128 and the number after a signal, 124 after a timeout. `None`: unknown."""
    if result.timed_out:
        return TIMED_OUT
    if result.exit_code is None and result.signal is not None:
        return 128 + getattr(signal, result.signal, signal.SIGKILL)
    return result.exit_code


def cell_time(limits: models.LimitsView, seconds: float | None) -> float | None:
    """The time limit of a cell: as asked for, but at most that of the session, which frameworks don't know."""
    return None if seconds is None else min(seconds, limits.wall_time_ms / 1000)


def omission(result: CommandResult) -> str:
    """A line for the output of a command, if some is missing."""
    count = result.omitted_bytes
    return f"[belljar: {count} bytes of older output are omitted]\n" if count else ""


def file_error(error: BelljarError, path: str, *, is_directory: bool = False) -> Exception:
    """The builtin exception for a refused file operation; others stay what they are."""
    kinds = {
        "file_not_found": errno.ENOENT,
        "path_denied": errno.EACCES,
        "file_exists": errno.EEXIST,
        "not_regular": errno.EISDIR if is_directory else errno.ENOTDIR,
        "file_too_large": errno.EFBIG,
        "file_refused": errno.EPERM,
        "bad_path": errno.EINVAL,
    }
    number = kinds.get(error.code)
    return error if number is None else OSError(number, f"{os.strerror(number)}: {error.detail}", path)

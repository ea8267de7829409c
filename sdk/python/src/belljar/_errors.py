"""Exceptions of the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .models import Outcome

UNREACHABLE = "unreachable"


class BelljarError(Exception):
    """The service refused a request, failed, or is unreachable.

    `code` never changes its meaning, and docs/errors.md has a section for each; `remedy` is the address of
    that section on the service itself.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        title: str = "",
        status: int | None = None,
        retry: bool = False,
        retry_after: float | None = None,
        remedy: str | None = None,
        request_id: str | None = None,
    ) -> None:
        self.code = code
        self.detail = detail
        self.title = title
        self.status = status
        self.retry = retry
        """Whether the same request may succeed later. The client has already retried it."""
        self.retry_after = retry_after
        """Seconds to wait before a retry."""
        self.remedy = remedy
        self.request_id = request_id
        """Id of the request in the log of the service."""
        super().__init__(code, detail)

    def __str__(self) -> str:
        text = f"{self.title}: {self.detail}" if self.title else self.detail
        return f"{text} [{self.code}{f', {self.remedy}' if self.remedy else ''}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (type(self), self.__dict__))


def _again(kind: type[BelljarError], fields: dict[str, Any]) -> BelljarError:
    return kind(**fields)


class Unreachable(BelljarError):
    """No response, or the connection broke and reconnecting failed."""


class Unauthorized(BelljarError):
    """The key is missing, wrong or revoked, or lacks a scope."""


class NotFound(BelljarError):
    """No such session, cell, checkpoint, run or file."""


class SessionEnded(BelljarError):
    """The session's processes are gone. Start a new one."""


class SessionBusy(BelljarError):
    """Another cell is running, and the request asked not to wait."""


class RateLimited(BelljarError):
    """The tenant has reached a limit or a quota."""


class Unavailable(BelljarError):
    """The service is at its limit, short of memory, or shutting down."""


class CellFailed(Exception):
    """A cell failed. Raised by `Outcome.raise_for_status`."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        super().__init__(outcome)

    def __str__(self) -> str:
        outcome = self.outcome
        traceback = outcome.exception.traceback.rstrip() if outcome.exception is not None else ""
        if outcome.status == "failure" and traceback:
            return outcome.safe(traceback)
        # What came out of the code then is where it was when it was stopped.
        lost = "; its session has ended" if outcome.state.fate == "lost" else ""
        return outcome.safe(f"cell {outcome.cell}: {outcome.status} ({outcome.cause.kind}){lost}\n{traceback}".rstrip())


_BY_CODE: dict[str, type[BelljarError]] = {
    # Nothing is wrong with the key.
    "path_denied": BelljarError,
    UNREACHABLE: Unreachable,
    "session_ended": SessionEnded,
    "session_busy": SessionBusy,
}
_BY_STATUS: dict[int, type[BelljarError]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
    507: Unavailable,
}


def error(code: str, detail: str, *, status: int | None = None, **more: Any) -> BelljarError:
    """The exception for a problem."""
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status or 0, BelljarError)
    return kind(code, detail, status=status, **more)

"""What can go wrong, as exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .models import Outcome

UNREACHABLE = "unreachable"


class BelljarError(Exception):
    """The service refused a request, failed, or could not be reached.

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
        """Whether the same request may succeed later. It was tried some times already."""
        self.retry_after = retry_after
        """Seconds after which to try again."""
        self.remedy = remedy
        self.request_id = request_id
        """What the log of the service has more under."""
        super().__init__(code, detail)

    def __str__(self) -> str:
        text = f"{self.title}: {self.detail}" if self.title else self.detail
        return f"{text} [{self.code}{f', {self.remedy}' if self.remedy else ''}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_again, (type(self), self.__dict__))


def _again(kind: type[BelljarError], fields: dict[str, Any]) -> BelljarError:
    return kind(**fields)


class Unreachable(BelljarError):
    """Nobody answered, or the connection broke and could not be made again."""


class Unauthorized(BelljarError):
    """There is no key, it is wrong or revoked, or it is not for this."""


class NotFound(BelljarError):
    """There is no such session, cell, checkpoint or file."""


class SessionEnded(BelljarError):
    """The session's processes are gone. Start a new one."""


class SessionBusy(BelljarError):
    """Another cell runs, and the request asked not to wait."""


class RateLimited(BelljarError):
    """The tenant uses as much as it may."""


class Unavailable(BelljarError):
    """The service is full, short of memory, or about to stop."""


class CellFailed(Exception):
    """A cell did not end in success. `Outcome.raise_for_status` raises it."""

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

"""What both clients share: what is asked, how answers are read, when something is tried again. No input and
no output happen here.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
import os
import random
import time
import uuid
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, Union, cast
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from . import _errors, models
from ._errors import BelljarError

if TYPE_CHECKING:
    import pandas

URL = "http://127.0.0.1:7878"
CONNECT = 5.0
# Seconds after which an answer that says nothing is given up. Streams give a sign of life every 15.
SILENCE = 60.0
# What takes its time in the host: copies of sessions, and whatever waits for a cell to end.
PATIENCE = 600.0
# Seconds; the caller decides about longer waits.
LONGEST_WAIT = 60.0
# Seconds for a service that restarts: its grace period, saving its sessions, and its start.
RESTART = 120.0
CHUNK = 1 << 16
# Larger files go in parts of this size.
PART = 8 << 20
TUS = {"Tus-Resumable": "1.0.0"}

Event = Union[
    models.StartedEvent,
    models.OutputEvent,
    models.TruncatedEvent,
    models.DisplayEvent,
    models.ClearedEvent,
    models.CalledEvent,
    models.CallDeniedEvent,
    models.CallCancelledEvent,
    models.InputRequestedEvent,
    models.InputClosedEvent,
    models.DeniedEvent,
    models.OutcomeEvent,
]
"""One fact about a running cell. `type` is its kind; the last one is always an `OutcomeEvent`."""

Json = dict[str, Any]


@dataclass(frozen=True)
class RunEvent:
    """One fact about a run, from its journal."""

    number: int
    """Number of the event, from 1 without gaps: where `Run.events` can continue."""
    kind: str
    data: models.RunEventData
    """Its fields: `models.RepliedRunEvent` for `replied`, and so on. A kind that this version does not know is a
    `models.Model` with the fields that the service sent."""


@dataclass(frozen=True)
class Share:
    """A new share link."""

    id: str
    """It is revoked by this id."""
    link: str
    """Address of its page, which needs no key. The service does not show it again."""


@dataclass(frozen=True)
class CommandResult:
    """How a command ended, and its newest output."""

    pid: int
    exit_code: int | None
    """Exit code; `None` if a signal ended the command, or its end is unknown."""
    signal: str | None
    """Name of the signal that ended it, such as `SIGKILL`."""
    timed_out: bool
    """Whether its timeout ended it."""
    stdout: str
    stderr: str
    terminal: str
    """Output of its terminal, if it has one."""
    omitted_bytes: int
    """Number of bytes of older output that the service does not keep."""
    lost_because: str | None
    """Why its end is unknown: the session hibernated, for example."""

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    @classmethod
    def of(cls, view: models.CommandView) -> CommandResult:
        outputs = [view.stdout, view.stderr, view.terminal]
        stdout, stderr, terminal = (output.text if output is not None else "" for output in outputs)
        omitted = sum(output.omitted_bytes for output in outputs if output is not None)
        return cls(
            view.pid,
            view.exit_code,
            view.signal,
            view.timed_out,
            stdout,
            stderr,
            terminal,
            omitted,
            view.lost_because,
        )


Reading = Generator[Event, None, None]
AsyncReading = AsyncGenerator[Event, None]
RunReading = Generator[RunEvent, None, None]
AsyncRunReading = AsyncGenerator[RunEvent, None]
CommandReading = Generator[models.CommandEvent, None, None]
AsyncCommandReading = AsyncGenerator[models.CommandEvent, None]
WatchReading = Generator[models.FileEvent, None, None]
AsyncWatchReading = AsyncGenerator[models.FileEvent, None]
ModelT = TypeVar("ModelT", bound=models.Model)
PageT = TypeVar("PageT", models.SessionPage, models.RunPage)
EventT = TypeVar("EventT")
WhenBusy = Literal["wait", "refuse"]
OnFailure = Literal["keep", "restore"]
Checkpoints = Literal["off", "auto", "every"]
Isolation = Literal["container", "full", "gvisor"]
"""Isolation of a session, the weakest first."""
Policy = Literal["never", "risky", "always"]
Tool = models.ToolAsked
RunFile = Union[str, "os.PathLike[str]", "tuple[str, bytes]"]
"""A local file, or a name and its contents."""


class Limits(TypedDict, total=False):
    """Resource limits of a session, at most the service's maximum."""

    memory_bytes: int
    milli_cpus: int
    processes: int
    workspace_bytes: int
    wall_time_ms: int
    cpu_time_ms: int


class Budget(TypedDict, total=False):
    """Budget of a run, at most the service's maximum."""

    steps: int
    tokens: int
    money: float
    seconds: int
    calls: int


@dataclass(frozen=True)
class Call:
    """A request, which can be sent again."""

    method: str
    path: str
    json: Json | None = None
    upload: Upload | None = None
    query: Mapping[str, str | int] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    read: float = PATIENCE
    stream: bool = False
    # Codes that the caller has asked for.
    final: frozenset[str] = frozenset()
    # Whether a broken connection ends it: the service has given it up then.
    once: bool = False

    @classmethod
    def change(cls, method: str, path: str, **more: Any) -> Call:
        """One that changes something: sent twice, it has one effect."""
        headers = {**more.pop("headers", {}), "Idempotency-Key": uuid.uuid4().hex}
        return cls(method, path, headers=headers, **more)

    def options(self) -> dict[str, Any]:
        """As httpx takes it, but for the upload."""
        headers = dict(self.headers)
        if self.upload is not None:
            headers["Content-Length"] = str(self.upload.size)
        timeout = httpx.Timeout(SILENCE, connect=CONNECT, read=self.read)
        return {"json": self.json, "params": dict(self.query), "headers": headers, "timeout": timeout}


@dataclass(frozen=True)
class Upload:
    """Bytes, or a file that is read when it is sent; or a part of them."""

    source: bytes | Path
    begin: int = 0
    length: int | None = None

    @property
    def size(self) -> int:
        if self.length is not None:
            return self.length
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def chunks(self) -> Iterator[bytes]:
        with io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb") as file:
            file.seek(self.begin)
            left = self.size
            while left > 0 and (chunk := file.read(min(CHUNK, left))):
                left -= len(chunk)
                yield chunk

    async def achunks(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks():
            yield chunk


@dataclass(frozen=True)
class Access:
    """Where the service is, and the key for it."""

    url: str
    key: str = field(repr=False)

    @classmethod
    def of(cls, url: str | None, key: str | None) -> Access:
        url = (url or os.environ.get("BELLJAR_URL") or URL).rstrip("/")
        key = (key or os.environ.get("BELLJAR_API_KEY") or "").strip()
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"the URL of a Belljar service starts with http:// or https://, not {url!r}")
        if not key:
            raise _errors.Unauthorized(
                "unauthorized",
                "no API key: set BELLJAR_API_KEY, or call Belljar(api_key=...). `belljar serve` prints one"
                " at its first start; `belljar keys create --tenant NAME --scope sessions` creates others",
            )
        return cls(url, key)

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}", "User-Agent": "belljar-python/0.1.0"}

    def unreachable(self, error: Exception) -> BelljarError:
        why = str(error) or type(error).__name__
        if isinstance(error, httpx.ConnectError):
            detail = (
                f"no Belljar service answers at {self.url} ({why}). Start one with `belljar serve`, or say where"
                " it is: BELLJAR_URL, or Belljar(url=...)"
            )
        else:
            detail = f"the connection to {self.url} broke ({why})"
        return _errors.error(_errors.UNREACHABLE, detail, retry=True)

    def problem(self, response: httpx.Response) -> BelljarError:
        """What an answer that is no success says. Its body has been read."""
        try:
            body = response.json()
        except ValueError:
            body = None
        status, after = response.status_code, response.headers.get("retry-after", "")
        more: Json = {
            "status": status,
            "retry_after": float(after) if after.isdigit() else None,
            "request_id": response.headers.get("x-request-id"),
        }
        if not isinstance(body, dict) or not isinstance(body.get("code"), str):
            # A proxy speaks, not the service.
            detail = f"{self.url} returned {status} {response.reason_phrase}, not a response of a Belljar service"
            return _errors.error("no_service", detail, retry=status in (408, 429, 502, 503, 504), **more)
        return self._told(body, **more)

    def fault(self, body: Any) -> BelljarError:
        """What a stream says in the place of an outcome."""
        return self._told(body if isinstance(body, dict) else {}, status=None)

    def _told(self, body: Json, **more: Any) -> BelljarError:
        code, remedy = str(body.get("code", "internal")), str(body.get("type", ""))
        return _errors.error(
            code,
            str(body.get("detail", "")),
            title=str(body.get("title", "")),
            retry=body.get("retry") is True,
            remedy=f"{self.url}{remedy}" if remedy.startswith("/") else None,
            **more,
        )


class Attempts:
    """When a request is sent again: as long as that may help, a little later each time."""

    def __init__(self, retries: int) -> None:
        self.left = retries
        self.pause = 0.25
        # Seconds waited since the service said that it stops.
        self.restart: float | None = None

    def wait(self, error: BelljarError, final: frozenset[str] = frozenset()) -> float:
        """Seconds to wait; raises the error if it is not worth it."""
        after = error.retry_after or 0.0
        if not error.retry or error.code in final or self.left <= 0 or after > LONGEST_WAIT:
            raise error
        if error.code == "draining" and self.restart is None:
            self.restart = 0.0
        # An announced restart takes as long as it takes.
        if self.restart is None or self.restart > RESTART:
            self.left -= 1
        pause, self.pause = self.pause, min(2 * self.pause, 8.0)
        # Clients that were refused together don't come back together.
        wait = max(after, pause) * random.uniform(1.0, 1.5)
        if self.restart is not None:
            self.restart += wait
        return wait


class Reader(Generic[EventT]):
    """How far a stream has been read: events one by one, each once, over as many connections as it takes."""

    def __init__(self, access: Access, retries: int, last: int = 0) -> None:
        self._access = access
        self._headers = {"Accept": "text/event-stream"}
        self._retries = retries
        self._attempts = Attempts(retries)
        self._last = last
        self._line: list[bytes] = []
        self._fields: dict[str, str] = {}

    def _again(self, path: str) -> Call:
        """Asks for what follows after the last event."""
        headers = {**self._headers, "Last-Event-ID": str(self._last)}
        return Call("GET", path, headers=headers, read=SILENCE, stream=True)

    def lost(self, error: Exception | None) -> float:
        """The connection is gone. Seconds to wait; raises an error if it broke too often without an event."""
        why = error or httpx.RemoteProtocolError("the stream ended too early")
        return self._attempts.wait(self._access.unreachable(why))

    def feed(self, chunk: bytes) -> list[EventT]:
        """The events that these bytes complete."""
        self._line.append(chunk)
        if b"\n" not in chunk:
            return []
        *lines, rest = b"".join(self._line).split(b"\n")
        self._line = [rest]
        events = (self._take(line.rstrip(b"\r").decode()) for line in lines)
        return [event for event in events if event is not None]

    def _take(self, line: str) -> EventT | None:
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields or not fields.get("id", "").isdigit() or int(fields["id"]) <= self._last:
            return None
        self._last = int(fields["id"])
        self._attempts = Attempts(self._retries)
        kind, data = fields.get("event", ""), fields["data"]
        if kind == "fault":
            raise self._access.fault(json.loads(data))
        return self._event(kind, data)

    def _event(self, kind: str, data: str) -> EventT | None:
        raise NotImplementedError


class CellReading(Reader[Event]):
    """How far a cell has been read."""

    def __init__(self, access: Access, session: str, body: Json, wall_time: float, retries: int) -> None:
        super().__init__(access, retries)
        final = frozenset({"session_busy"}) if body.get("when_busy") == "refuse" else frozenset[str]()
        self._path = f"{session}/cells"
        # The answer begins with the cell, and others may be before it.
        read = wall_time + SILENCE
        self._first = Call.change(
            "POST", self._path, json=body, headers=self._headers, read=read, stream=True, final=final
        )
        self.number: int | None = None
        self.outcome: models.Outcome | None = None

    def call(self) -> Call:
        """What to ask for: the cell, or what follows after the last event."""
        self._line, self._fields = [], {}
        return self._first if self.number is None else self._again(f"{self._path}/{self.number}/events")

    def show(self) -> Call:
        """Asks for the cell itself."""
        return Call("GET", f"{self._path}/{self.number}")

    def _event(self, kind: str, data: str) -> Event | None:
        if kind not in models.EVENTS:
            return None
        event: Event = parse(models.EVENTS[kind], data)  # type: ignore[assignment]
        if isinstance(event, models.StartedEvent):
            self.number = event.cell
        elif isinstance(event, models.OutcomeEvent):
            self.outcome = event
        return event


class RunReader(Reader[RunEvent]):
    """How far a run has been read."""

    def __init__(self, access: Access, run: str, after: int, retries: int) -> None:
        super().__init__(access, retries, after)
        self._path = f"{run}/events"
        self.ended = False

    def call(self) -> Call:
        """Asks for what follows after the last event."""
        self._line, self._fields = [], {}
        return self._again(self._path)

    def is_whole(self, run: models.RunView) -> bool:
        """Whether no event follows: the last event of an ended run was received."""
        return run.reason is not None and self._last >= run.events

    def _event(self, kind: str, data: str) -> RunEvent:
        self.ended = kind == "ended"
        known = models.RUN_EVENTS.get(kind, models.Model)
        return RunEvent(self._last, kind, cast(models.RunEventData, parse(known, data)))


class ReproductionReader(Reader[models.Reproduction]):
    """The comparison at the end of a reproduction, which ends with its connection."""

    def __init__(self, access: Access, run: str) -> None:
        super().__init__(access, 0)
        headers = self._headers
        self.call = Call("POST", f"{run}/reproduce", json={}, headers=headers, read=SILENCE, stream=True, once=True)

    def broken(self, error: Exception | None = None) -> BelljarError:
        """The connection is gone."""
        return self._access.unreachable(error or httpx.RemoteProtocolError("the stream ended too early"))

    def _event(self, kind: str, data: str) -> models.Reproduction | None:
        if kind == "problem":
            raise self._access.fault(json.loads(data))
        return parse(models.Reproduction, data) if kind == "reproduction" else None


class CommandReader(Reader[models.CommandEvent]):
    """How far the output of a command has been read."""

    def __init__(self, access: Access, command: str, position: int, retries: int) -> None:
        super().__init__(access, retries, position)
        self._path = f"{command}/events"
        self.ended = False

    @property
    def position(self) -> int:
        """Where to continue, in bytes of the output."""
        return self._last

    def call(self) -> Call:
        """Asks for what follows after the last event."""
        self._line, self._fields = [], {}
        return self._again(self._path)

    def _event(self, kind: str, data: str) -> models.CommandEvent:
        self.ended = kind == "end"
        return parse(models.CommandEvent, data)


class WatchReader(Reader[models.FileEvent]):
    """How far the changes of a directory have been read. After a broken connection, there is no way to know what was
    missed: the error is the caller's."""

    def __init__(self, access: Access, session: str, directory: str) -> None:
        super().__init__(access, 0)
        self._call = Call(
            "GET",
            f"{session}/watch",
            query={"path": directory} if directory else {},
            headers=self._headers,
            read=SILENCE,
            stream=True,
        )
        self.ended = False

    def call(self) -> Call:
        return self._call

    def broken(self, error: Exception) -> BelljarError:
        """The connection is gone."""
        return self._access.unreachable(error)

    def _event(self, kind: str, data: str) -> models.FileEvent:
        self.ended = kind == "end"
        return parse(models.FileEvent, data)


def parse(model: type[ModelT], text: str | bytes) -> ModelT:
    """Parses a response."""
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        detail = f"the service did not return a {model.__name__}; is it another version? {error}"
        raise BelljarError("bad_answer", detail) from error


def listen(response: httpx.Response, until: float | None = None) -> None:
    """The answer has begun, and will give signs of life: to wait for it took more patience than it takes now. Nobody
    waits beyond `until`."""
    left = SILENCE if until is None else max(0.0, until - time.monotonic())
    response.request.extensions["timeout"]["read"] = min(SILENCE, left)


def deadline(timeout: float | None) -> float | None:
    """When so many seconds are over."""
    return None if timeout is None else time.monotonic() + timeout


def check_time(until: float | None, run: str) -> None:
    """Raises `TimeoutError` after `until`."""
    if until is not None and time.monotonic() >= until:
        raise TimeoutError(f"run {run} has not ended in time; it continues, and `Run.result` can be called again")


def decision(said: object) -> Json | None:
    """What `on_approval` returned, as a decision; `None` if it left the decision to somebody else."""
    if said is None:
        return None
    if isinstance(said, str):
        return {"kind": "feedback", "text": said}
    if isinstance(said, bool):
        return {"kind": "accept", "rest_of_run": False} if said else {"kind": "reject"}
    raise TypeError(f"on_approval must return True, False, a string or None, not {type(said).__name__}")


def warn_of_missing(page: models.SessionPage) -> None:
    """A list with gaps is not taken for a whole one."""
    if page.unanswered:
        nodes = ", ".join(page.unanswered)
        warnings.warn(f"nodes that did not answer, whose sessions are missing: {nodes}", stacklevel=3)


def shared_part(run: models.RunView, step: int | None, value: str | None) -> Json:
    """What a share link shows."""
    if value is None:
        return {} if step is None else {"step": step}
    if step is not None:
        raise ValueError("a link shows either a step or a value")
    values = [evidence.value for evidence in run.evidence]
    if value not in values:
        raise ValueError(f"the answer has no value {value!r}; it has {', '.join(values) or 'none'}")
    return {"value": values.index(value) + 1}


def part(name: str) -> str:
    """A name as a part of a path. What would lead elsewhere is none."""
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} is not a valid name")
    return quote(name, safe="")


def file_path(path: str) -> str:
    """A path inside a session. The first `/` of an absolute one is encoded, since proxies merge two of them."""
    root, rest = ("%2F", path[1:]) if path.startswith("/") else ("", path)
    return root + "/".join(part(one) for one in rest.split("/"))


def source(given: bytes | str | os.PathLike[str]) -> Upload:
    """What is to be sent: bytes, or a local file."""
    return Upload(given if isinstance(given, bytes) else Path(given))


def named_source(name: str | os.PathLike[str], given: bytes | str | os.PathLike[str] | None) -> tuple[str, Upload]:
    """The name in the workspace, and what is to be put there."""
    if isinstance(name, bytes):
        raise TypeError("the name comes first: files.put('name.csv', data)")
    if given is None:
        return Path(name).name, source(name)
    return os.fspath(name), source(given)


def whole_headers(name: str, size: int) -> dict[str, str]:
    """Of a request that begins an upload in parts."""
    metadata = f"filename {base64.b64encode(name.encode()).decode()}"
    return {**TUS, "Upload-Length": str(size), "Upload-Metadata": metadata}


def part_call(path: str, upload: Upload, offset: int) -> Call:
    """The next part. Sent twice, the second is refused: what has arrived is asked for then."""
    part = Upload(upload.source, offset, min(PART, upload.size - offset))
    headers = {**TUS, "Content-Type": "application/offset+octet-stream", "Upload-Offset": str(offset)}
    return Call("PATCH", path, upload=part, headers=headers)


def closed() -> BelljarError:
    return BelljarError(
        "client_closed",
        "this client is closed, and the sessions that it started have ended: make a new one with Belljar(). To keep a"
        " session, call its `keep()` first",
    )


def cell(
    code: str,
    namespace: str | None,
    wall_time: float | None,
    when_busy: WhenBusy,
    on_failure: OnFailure,
    answers_input: bool,
) -> Json:
    body: Json = {"code": code, "when_busy": when_busy, "on_failure": on_failure}
    if namespace is not None:
        body["namespace"] = namespace
    if answers_input:
        body["input"] = True
    if wall_time is not None:
        body["wall_time_ms"] = max(1, round(1000 * wall_time))
    return body


def new_command(
    command: str | Sequence[str], variables: Mapping[str, str] | None, timeout: float | None, **more: Any
) -> Json:
    body: Json = {"command": command} if isinstance(command, str) else {"argv": list(command)}
    body.update({name: value for name, value in more.items() if value is not None})
    if variables:
        body["variables"] = dict(variables)
    if timeout is not None:
        body["timeout_ms"] = max(1, round(1000 * timeout))
    return body


def new_session(
    limits: Limits | None,
    allow: Sequence[str] | None,
    packages: Sequence[str] | None,
    mounts: Sequence[str] | None,
    **more: Any,
) -> Json:
    body: Json = {name: value for name, value in more.items() if value is not None}
    if limits:
        body["limits"] = dict(limits)
    if allow:
        body["network"] = {"allow": list(allow)}
    if packages is not None:
        body["packages"] = {"allow": list(packages)}
    if mounts:
        body["mounts"] = list(mounts)
    return body


def label(name: str | None, metadata: Mapping[str, str] | None, ttl: int | None) -> Json:
    body = {"name": name, "metadata": None if metadata is None else dict(metadata), "ttl_seconds": ttl}
    return {name: value for name, value in body.items() if value is not None}


def variables(variables: Mapping[str, str] | None, secrets: Mapping[str, str] | None = None) -> Json:
    body = {"variables": variables, "secrets": secrets}
    return {name: dict(values) for name, values in body.items() if values}


def new_run(task: str, files: Sequence[RunFile], **more: Any) -> Json:
    body: Json = {"task": task, **{name: value for name, value in more.items() if value is not None}}
    if files:
        body["files"] = [run_file(file) for file in files]
    return body


def run_file(file: RunFile) -> Json:
    if isinstance(file, tuple):
        name, contents = file
    else:
        name, contents = Path(file).name, Path(file).read_bytes()
    return {"name": name, "contents": base64.b64encode(contents).decode()}


def destination(directory: Path, path: str) -> Path:
    """Where a file of a run goes. Its path was chosen by code that nobody has read."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\\" in part or "\0" in part or ":" in part for part in parts):
        raise BelljarError("bad_answer", f"the service names a file {path!r} outside the directory")
    return directory.joinpath(*parts)


def frame_kind(name: str) -> str:
    """In what form a data frame is in a file. Python's own is not among them: who reads it runs it."""
    for kind in ("csv", "parquet"):
        if name.endswith(f".{kind}"):
            return kind
    raise ValueError(f"a data frame must be .csv or .parquet, not {name!r}")


def from_frame(name: str, frame: pandas.DataFrame) -> bytes:
    """A data frame as the bytes of a file."""
    kind = frame_kind(name)
    return bytes(frame.to_parquet()) if kind == "parquet" else str(frame.to_csv(index=False)).encode()


def to_frame(name: str, data: bytes) -> pandas.DataFrame:
    """A data frame from the bytes of a file."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise ImportError("data frames need pandas on this side: pip install pandas") from error
    return getattr(pandas, f"read_{frame_kind(name)}")(io.BytesIO(data))

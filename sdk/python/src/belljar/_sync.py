# Made by generate.py: change what it is made from, and run that again.
"""The clients. `_sync.py` is made from `_async.py`."""

from __future__ import annotations

import time
import contextlib
import os
import tempfile
from collections.abc import Iterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import httpx

from . import _core, models
from ._core import Access, Call, CellReading, Event, Json, ModelT, PageT, RunReader
from ._errors import BelljarError, NotFound, SessionEnded

if TYPE_CHECKING:
    import pandas


class Belljar:
    """A Belljar service.

    `url` and `api_key` come from the variables `BELLJAR_URL` (`http://127.0.0.1:7878` by default) and
    `BELLJAR_API_KEY` where they are not given. What fails in a way that may pass is tried again up to
    `retries` times, and has one effect. Closing it ends the sessions that it started.
    """

    def __init__(self, url: str | None = None, api_key: str | None = None, *, retries: int = 4) -> None:
        self._access = Access.of(url, api_key)
        self._retries = retries
        self._answered = False
        self._started: dict[str, Session] = {}
        # A stream is a connection, and a tenant has 64 of them.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._http = httpx.Client(base_url=self._access.url, headers=self._access.headers(), limits=limits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._access.url!r})"

    def __enter__(self) -> Belljar:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What went wrong first is what is told.
        with contextlib.suppress(*([BelljarError] if kind else [])):
            self.close()

    def close(self) -> None:
        """Ends the sessions that were started here, but for those that are kept, and the connections."""
        try:
            for session in list(self._started.values()):
                session.close()
        finally:
            self._http.close()

    def session(
        self,
        *,
        limits: _core.Limits | None = None,
        checkpoints: _core.Checkpoints | None = None,
        allow: list[str] | None = None,
    ) -> Session:
        """Starts a session. What is left out is as the service has it; `allow` are hosts that it may reach."""
        body = _core.new_session(limits, checkpoints, allow)
        return self._hold(self._ask(models.SessionView, Call.change("POST", "/v1/sessions", json=body)))

    def session_from_snapshot(self, snapshot: bytes | str | os.PathLike[str]) -> Session:
        """Starts a session from a snapshot: its bytes, or the path of its file."""
        upload, _ = _core.source(snapshot, "snapshot")
        headers = {"Content-Type": "application/vnd.belljar.snapshot"}
        call = Call.change("POST", "/v1/sessions/from-snapshot", upload=upload, headers=headers)
        return self._hold(self._ask(models.SessionView, call))

    def attach(self, id: str) -> Session:
        """A session that is there already. Closing this client does not end it."""
        call = Call("GET", f"/v1/sessions/{_core.part(id)}")
        return Session(self, self._ask(models.SessionView, call))

    def sessions(self) -> Iterator[models.SessionView]:
        """All sessions of the tenant, the oldest first."""
        for page in self._pages(models.SessionPage, "/v1/sessions"):
            for session in page.sessions:
                yield session

    def run(
        self,
        task: str,
        *,
        files: Sequence[_core.RunFile] = (),
        model: str | None = None,
        language: models.Language | None = None,
        budget: _core.Budget | None = None,
        approvals: _core.Policy | None = None,
        tools: Sequence[_core.Tool] | None = None,
    ) -> Run:
        """Starts a run: an agent works on a task, with these files. It goes on by itself, whoever listens, also
        when this client is closed. What is left out is as the service has it."""
        body = _core.new_run(
            task, files, model=model, language=language, budget=budget, approvals=approvals, tools=tools
        )
        return Run(self, self._ask(models.RunView, Call.change("POST", "/v1/runs", json=body)))

    def attach_run(self, id: str) -> Run:
        """A run that is there already, whether it goes on or has ended."""
        return Run(self, self._ask(models.RunView, Call("GET", f"/v1/runs/{_core.part(id)}")))

    def runs(self) -> Iterator[models.RunBrief]:
        """All runs of the tenant, the newest first."""
        for page in self._pages(models.RunPage, "/v1/runs"):
            for run in page.runs:
                yield run

    def _pages(self, model: type[PageT], path: str) -> Iterator[PageT]:
        query: dict[str, str | int] = {"limit": 200}
        while True:
            page = self._ask(model, Call("GET", path, query=query))
            yield page
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor

    def _hold(self, view: models.SessionView) -> Session:
        session = Session(self, view)
        self._started[view.id] = session
        return session

    def _ask(self, model: type[ModelT], call: Call) -> ModelT:
        return _core.parse(model, (self._send(call)).content)

    def _send(self, call: Call, to: BinaryIO | None = None) -> httpx.Response:
        """An answer that is a success: read whole, or into a file, or not yet where it is a stream."""
        attempts = _core.Attempts(self._retries)
        while True:
            try:
                return self._once(call, to)
            except httpx.ConnectError as failure:
                error = self._access.unreachable(failure)
                if not self._answered:
                    # There is none, most likely: better to say so at once.
                    raise error from None
            except httpx.TransportError as failure:
                error = self._access.unreachable(failure)
            except BelljarError as refusal:
                error = refusal
            time.sleep(attempts.wait(error, call.final))

    def _once(self, call: Call, to: BinaryIO | None) -> httpx.Response:
        content = call.upload.chunks() if call.upload is not None else None
        request = self._http.build_request(call.method, call.path, content=content, **call.options())
        response = self._http.send(request, stream=True)
        self._answered = True
        if response.is_success and call.stream:
            return response
        try:
            if response.is_success and to is not None:
                to.seek(0)
                to.truncate()
                for chunk in response.iter_bytes():
                    to.write(chunk)
            else:
                response.read()
        finally:
            response.close()
        if not response.is_success:
            raise self._access.problem(response)
        return response

    def _save(self, call: Call, to: str | os.PathLike[str]) -> httpx.Response:
        """Writes an answer to a file, which is there whole or not at all."""
        path = Path(to)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
            try:
                response = self._send(call, file)  # type: ignore[arg-type]
                file.close()
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
        return response


class Session:
    """One live interpreter with a workspace. `with` ends it."""

    def __init__(self, client: Belljar, view: models.SessionView) -> None:
        self.id = view.id
        self.limits = view.limits
        self._client = client
        self._path = f"/v1/sessions/{_core.part(view.id)}"
        self.files = Files(client, self._path)
        """The files of its workspace."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with contextlib.suppress(*([BelljarError] if kind else [])):
            self.close()

    def close(self) -> None:
        """Ends the session, whatever it does. One that has ended is left as it is."""
        with contextlib.suppress(NotFound, SessionEnded):
            self._client._send(Call.change("DELETE", self._path))
        self.keep()

    def keep(self) -> None:
        """Lets the session live on when the client that started it is closed. `attach` finds it by its `id`."""
        self._client._started.pop(self.id, None)

    def info(self) -> models.SessionView:
        """What the session is doing, and what it uses (`use`). Waits for no cell, and does not wake it."""
        return self._ask(models.SessionView, Call("GET", self._path))

    def run(
        self,
        code: str,
        *,
        stream: Callable[[Event], object] | None = None,
        wall_time: float | None = None,
        when_busy: _core.WhenBusy = "wait",
        on_failure: _core.OnFailure = "keep",
    ) -> models.Outcome:
        """Runs a cell to its end.

        An exception in the code is part of the outcome; `raise_for_status` raises it. `stream` is called with
        each event as it comes. `wall_time` is in seconds, at most the session's limit. Who stops waiting
        (Ctrl-C, a cancelled task) interrupts the cell.
        """
        events = self.stream(code, wall_time=wall_time, when_busy=when_busy, on_failure=on_failure)
        try:
            for event in events:
                if stream is not None:
                    told = stream(event)
        except BelljarError as error:
            if error.code != "events_gone":
                raise
            # It told more than is kept while the connection was lost; the outcome is kept.
            return self._outcome(events.reading)
        except KeyboardInterrupt:
            if events.cell is not None:
                with contextlib.suppress(BelljarError, httpx.HTTPError):
                    self._client._once(Call.change("POST", f"{self._path}/interrupt", read=5.0), None)
            raise
        finally:
            events.close()
        if events.outcome is None:
            raise BelljarError("bad_answer", "the service told no outcome")
        return events.outcome

    def stream(
        self,
        code: str,
        *,
        wall_time: float | None = None,
        when_busy: _core.WhenBusy = "wait",
        on_failure: _core.OnFailure = "keep",
    ) -> Events:
        """Runs a cell and gives its events as they come, the outcome last.

        A connection that breaks is made again, and goes on with the event after the last one. The cell starts
        with the first event that is asked for, and runs to its end whether anyone listens: `interrupt` stops it.
        """
        body = _core.cell(code, wall_time, when_busy, on_failure)
        longest = self.limits.wall_time_ms / 1000
        access, retries = self._client._access, self._client._retries
        return Events(self._client, CellReading(access, self._path, body, longest, retries))

    def _outcome(self, reading: CellReading) -> models.Outcome:
        while True:
            cell = self._ask(models.CellView, reading.show())
            if cell.outcome is not None:
                return cell.outcome
            if cell.state == "failed":
                raise BelljarError("internal", "the service failed while the cell ran")
            time.sleep(0.5)

    def interrupt(self) -> bool:
        """Interrupts the cell that runs, as Ctrl-C would. False if none does."""
        call = Call.change("POST", f"{self._path}/interrupt")
        return (self._ask(models.Interrupted, call)).interrupted

    def manifest(self) -> list[models.NameInfo]:
        """The names of the namespace."""
        return (self._ask(models.Manifest, Call("GET", f"{self._path}/manifest"))).names

    def cell(self, number: int) -> models.CellView:
        """One of the last cells, with its outcome."""
        return self._ask(models.CellView, Call("GET", f"{self._path}/cells/{number}"))

    def checkpoint(self, name: str) -> None:
        """Keeps a copy of the session, variables and files, under a name."""
        self._change("checkpoints", {"name": name})

    def checkpoints(self) -> list[models.CheckpointView]:
        """The copies that are kept, the newest last."""
        return (self._ask(models.CheckpointList, Call("GET", f"{self._path}/checkpoints"))).checkpoints

    def forget(self, name: str) -> None:
        """Gives a copy up."""
        self._client._send(Call.change("DELETE", f"{self._path}/checkpoints/{_core.part(name)}"))

    def restore(self, name: str | None = None, *, cell: int | None = None) -> None:
        """Goes back to a copy: by its name, or the newest one made after a cell."""
        body = {"name": name, "cell": cell}
        self._change("restore", {key: value for key, value in body.items() if value is not None})

    def fork(self, count: int = 1) -> list[Session]:
        """New sessions with all that this one has; it goes on as it is."""
        forks = self._ask(models.Forks, Call.change("POST", f"{self._path}/fork", json={"count": count}))
        return [self._client._hold(view) for view in forks.sessions]

    def snapshot(self, to: str | os.PathLike[str]) -> int:
        """Saves the session to a file; how many names and files could not be saved."""
        response = self._client._save(Call("GET", f"{self._path}/snapshot"), to)
        return int(response.headers.get("belljar-left-out", 0))

    def archive(self, to: str | os.PathLike[str]) -> None:
        """Saves the files of the workspace as a tar archive."""
        self._client._save(Call("GET", f"{self._path}/archive"), to)

    def hibernate(self) -> models.LeftOut:
        """Puts the session to sleep, and tells what it will lack when it wakes. Its next use wakes it."""
        return self._ask(models.LeftOut, Call.change("POST", f"{self._path}/hibernate"))

    def wake(self) -> None:
        """Wakes the session, if it sleeps."""
        self._client._send(Call.change("POST", f"{self._path}/wake"))

    def _ask(self, model: type[ModelT], call: Call) -> ModelT:
        return self._client._ask(model, call)

    def _change(self, what: str, body: Json) -> None:
        self._client._send(Call.change("POST", f"{self._path}/{what}", json=body))


class Events:
    """The events of a cell, as they come. `with` lets go of the connection early; the cell runs on."""

    def __init__(self, client: Belljar, reading: CellReading) -> None:
        self._client = client
        self.reading = reading
        self._events = self._read()

    @property
    def cell(self) -> int | None:
        """The number of the cell, once it has begun."""
        return self.reading.number

    @property
    def outcome(self) -> models.Outcome | None:
        """Its outcome, once it has one."""
        return self.reading.outcome

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return self._events.__next__()

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the connection."""
        self._events.close()

    def _read(self) -> _core.Reading:
        reading = self.reading
        while reading.outcome is None:
            response = self._client._send(reading.call())
            _core.listen(response)
            broke: Exception | None = None
            try:
                for chunk in response.iter_bytes():
                    for event in reading.feed(chunk):
                        yield event
            except httpx.TransportError as error:
                broke = error
            finally:
                response.close()
            if reading.outcome is None:
                time.sleep(reading.lost(broke))


class Run:
    """An agent at a task. `view` is how the run was when the service last told: `state`, `spent` and the rest."""

    def __init__(self, client: Belljar, view: models.RunView) -> None:
        self.id = view.id
        self.view = view
        self._client = client
        self._path = f"/v1/runs/{_core.part(view.id)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.view.state!r})"

    @property
    def answer(self) -> str | None:
        """The answer, or the best there is, once the run has ended."""
        return self.view.answer

    @property
    def waits_for(self) -> list[models.Approval]:
        """What a person is to decide."""
        return self.view.waits_for

    @property
    def artifacts(self) -> list[models.Artifact]:
        """Files that it made, once it has ended; `save` gets them."""
        return self.view.artifacts

    def __iter__(self) -> _core.RunReading:
        return self.events()

    def events(self, after: int = 0) -> _core.RunReading:
        """The events of the run after this number, as they come, to its end.

        A connection that breaks is made again, and goes on with the event after the last one. `view` is told
        anew when the run asks a person and when it has ended.
        """
        reader = RunReader(self._client._access, self._path, after, self._client._retries)
        while not reader.ended:
            response = self._client._send(reader.call())
            _core.listen(response)
            broke: Exception | None = None
            try:
                for chunk in response.iter_bytes():
                    for event in reader.feed(chunk):
                        if event.kind in ("approval_asked", "ended"):
                            self.refresh()
                        yield event
            except httpx.TransportError as error:
                broke = error
            finally:
                response.close()
            if not reader.ended:
                if reader.is_whole(self.refresh()):
                    return
                time.sleep(reader.lost(broke))

    def result(self) -> models.RunView:
        """Waits for the end: the answer, why it has ended, where its values were seen, the files that it made.
        A run that asks a person waits for as long as nobody decides."""
        for _ in self.events(self.view.events):
            pass
        return self.view

    def refresh(self) -> models.RunView:
        """How the run is now."""
        self.view = self._client._ask(models.RunView, Call("GET", self._path))
        return self.view

    def approve(self, approval: models.Approval | None = None, *, rest_of_run: bool = False) -> None:
        """Accepts what the run waits for: the first of `waits_for` where none is given. `rest_of_run` accepts also
        what is like it from now on."""
        self._decide(approval, {"kind": "accept", "rest_of_run": rest_of_run})

    def edit(self, code: str, approval: models.Approval | None = None) -> None:
        """Has this code run instead."""
        self._decide(approval, {"kind": "edit", "code": code})

    def reject(self, feedback: str | None = None, approval: models.Approval | None = None) -> None:
        """Refuses what the run waits for, and tells the model why."""
        refusal = {"kind": "reject"} if feedback is None else {"kind": "feedback", "text": feedback}
        self._decide(approval, refusal)

    def _decide(self, approval: models.Approval | None, decision: Json) -> None:
        if approval is None:
            if not self.waits_for:
                self.refresh()
            if not self.waits_for:
                raise ValueError("the run waits for nobody")
            approval = self.waits_for[0]
        path = f"{self._path}/approvals/{_core.part(approval.id)}"
        # The decision is for exactly what was shown.
        body = {"hash": approval.hash, "decision": decision}
        self._client._send(Call.change("POST", path, json=body))
        self.refresh()

    def cancel(self) -> None:
        """Ends the run with the best answer that it has."""
        self._change("cancel", {})

    def interrupt(self) -> bool:
        """Interrupts the cell that runs, as Ctrl-C would; the model is told, and goes on. False if none does."""
        call = Call.change("POST", f"{self._path}/interrupt", json={})
        return (self._client._ask(models.Interrupted, call)).interrupted

    def resume(self) -> None:
        """Goes on with a run that nobody is at."""
        self._change("resume", {})

    def delete(self) -> None:
        """Deletes the run, which has ended, with its files. Runs that went on from it stay as they are."""
        # It may go on for long: that is not for a request to wait for.
        final = frozenset({"run_not_ended"})
        self._client._send(Call.change("DELETE", self._path, final=final))

    def raise_budget(self, budget: _core.Budget) -> None:
        """Raises parts of the budget."""
        self._change("budget", dict(budget))

    def set_policy(self, approvals: _core.Policy) -> None:
        """Says when a person is asked from now on."""
        self._change("policy", {"approvals": approvals})

    def follow_up(self, task: str) -> Run:
        """Starts a run that goes on from the end of this one."""
        return self._go_on("follow-up", {"task": task})

    def branch(self, step: int, task: str | None = None) -> Run:
        """Starts a run that goes on from after a step of this one; with its task, where none is given."""
        return self._go_on("branch", {"step": step} if task is None else {"step": step, "task": task})

    def save(self, to: str | os.PathLike[str]) -> list[Path]:
        """Writes the files that the run made into a directory; where each of them is."""
        saved = []
        for artifact in self.artifacts:
            path = _core.destination(Path(to), artifact.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            call = Call("GET", f"{self._path}/artifacts/{_core.file_path(artifact.path)}")
            self._client._save(call, path)
            saved.append(path)
        return saved

    def export(self, to: str | os.PathLike[str]) -> None:
        """Saves the run as a notebook, a script or a page: `.ipynb`, `.py` or `.html`."""
        query = {"format": Path(to).suffix.removeprefix(".")}
        self._client._save(Call("GET", f"{self._path}/export", query=query), to)

    def _change(self, what: str, body: Json) -> None:
        call = Call.change("POST", f"{self._path}/{what}", json=body)
        self.view = self._client._ask(models.RunView, call)

    def _go_on(self, how: str, body: Json) -> Run:
        call = Call.change("POST", f"{self._path}/{how}", json=body)
        return Run(self._client, self._client._ask(models.RunView, call))


class Files:
    """The files of a session's workspace."""

    def __init__(self, client: Belljar, session: str) -> None:
        self._client = client
        self._path = f"{session}/files"

    def put(self, source: bytes | str | os.PathLike[str], name: str | None = None) -> None:
        """Puts a file of this machine, or bytes, into the workspace; under its own name if none is given."""
        upload, name = _core.source(source, name)
        headers = {"Content-Type": "application/octet-stream"}
        self._client._send(Call.change("PUT", self._one(name), upload=upload, headers=headers))

    def get(self, name: str) -> bytes:
        """The contents of a file."""
        return (self._client._send(Call("GET", self._one(name)))).content

    def save(self, name: str, to: str | os.PathLike[str]) -> None:
        """Writes a file of the workspace to a file of this machine."""
        self._client._save(Call("GET", self._one(name)), to)

    def list(self, directory: str = "") -> models.FileList:
        """What is in the workspace, or in a directory of it."""
        query = {"path": directory} if directory else {}
        return self._client._ask(models.FileList, Call("GET", self._path, query=query))

    def delete(self, name: str) -> None:
        """Deletes a file or an empty directory."""
        self._client._send(Call.change("DELETE", self._one(name)))

    def put_frame(self, name: str, frame: pandas.DataFrame) -> None:
        """Puts a data frame into the workspace, as `.csv` or `.parquet`."""
        self.put(_core.from_frame(name, frame), name)

    def get_frame(self, name: str) -> pandas.DataFrame:
        """A data frame from a `.csv` or `.parquet` of the workspace."""
        _core.frame_kind(name)
        return _core.to_frame(name, self.get(name))

    def _one(self, name: str) -> str:
        return f"{self._path}/{_core.file_path(name)}"

"""The clients. `_sync.py` is generated from `_async.py`."""

from __future__ import annotations

import asyncio
import contextlib
import inspect  # async
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import httpx

from . import _core, _directories, models
from ._async_commands import AsyncCommands
from ._core import Access, Call, CellReading, Event, Json, ModelT, PageT, RunReader
from ._errors import BelljarError, NotFound, SessionEnded

if TYPE_CHECKING:
    import pandas


class AsyncBelljar:
    """A Belljar service.

    `url` and `api_key` default to the variables `BELLJAR_URL` (default: `http://127.0.0.1:7878`) and
    `BELLJAR_API_KEY`. Transient failures are retried up to `retries` times, with one effect in total. Closing the
    client ends the sessions that it started.
    """

    def __init__(self, url: str | None = None, api_key: str | None = None, *, retries: int = 4) -> None:
        self._access = Access.of(url, api_key)
        self._retries = retries
        self._answered = False
        self._started: dict[str, AsyncSession] = {}
        # A stream is a connection, and a tenant has 64 of them.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._http = httpx.AsyncClient(base_url=self._access.url, headers=self._access.headers(), limits=limits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._access.url!r})"

    async def __aenter__(self) -> AsyncBelljar:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # The first error is raised.
        with contextlib.suppress(*([BelljarError] if kind else [])):
            await self.close()

    async def close(self) -> None:
        """Ends the sessions that this client started, except kept ones, and closes its connections."""
        try:
            for session in list(self._started.values()):
                await session.close()
        finally:
            await self._http.aclose()

    async def session(
        self,
        *,
        limits: _core.Limits | None = None,
        checkpoints: _core.Checkpoints | None = None,
        allow: Sequence[str] | None = None,
        packages: Sequence[str] | None = None,
        mounts: Sequence[str] | None = None,
        environment: str | None = None,
        isolation: _core.Isolation | None = None,
        name: str | None = None,
        metadata: Mapping[str, str] | None = None,
        ttl: int | None = None,
        variables: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> AsyncSession:
        """Starts a session. Omitted options have the service's defaults.

        `allow` lists hosts that it may reach, `packages` those that its code may require. `mounts` are directories
        that the service offers, in `/data/NAME`; `environment` and `isolation` are each one that it offers. `name` and
        `metadata` are labels; after `ttl` seconds, the session ends. `variables` and `secrets` are environment
        variables; the service stores no secret, and replaces its value in output.
        """
        more = {"checkpoints": checkpoints, "environment": environment, "isolation": isolation}
        label = {**_core.label(name, metadata, ttl), **_core.variables(variables, secrets)}
        body = _core.new_session(limits, allow, packages, mounts, **more, **label)
        return self._hold(await self._ask(models.SessionView, Call.change("POST", "/v1/sessions", json=body)))

    async def session_from_snapshot(
        self,
        snapshot: bytes | str | os.PathLike[str],
        *,
        environment: str | None = None,
        isolation: _core.Isolation | None = None,
    ) -> AsyncSession:
        """Starts a session from a snapshot: its bytes, or the path of its file."""
        asked = {"environment": environment, "isolation": isolation}
        query = {name: value for name, value in asked.items() if value is not None}
        upload = _core.source(snapshot)
        headers = {"Content-Type": "application/vnd.belljar.snapshot"}
        call = Call.change("POST", "/v1/sessions/from-snapshot", upload=upload, headers=headers, query=query)
        return self._hold(await self._ask(models.SessionView, call))

    async def attach(self, id: str) -> AsyncSession:
        """An existing session. Closing this client does not end it."""
        call = Call("GET", f"/v1/sessions/{_core.part(id)}")
        return AsyncSession(self, await self._ask(models.SessionView, call))

    async def sessions(
        self, *, name: str | None = None, metadata: tuple[str, str] | None = None
    ) -> AsyncIterator[models.SessionView]:
        """The sessions of the tenant, oldest first: all, or those with this name, and this key and value.

        Warns of nodes of a cluster that did not answer: their sessions are missing.
        """
        only = {"name": name, "metadata": None if metadata is None else "=".join(metadata)}
        query = {key: value for key, value in only.items() if value is not None}
        async for page in self._pages(models.SessionPage, "/v1/sessions", query):
            _core.warn_of_missing(page)
            for session in page.sessions:
                yield session

    async def run(
        self,
        task: str,
        *,
        files: Sequence[_core.RunFile] = (),
        model: str | None = None,
        environment: str | None = None,
        isolation: _core.Isolation | None = None,
        language: models.Language | None = None,
        budget: _core.Budget | None = None,
        approvals: _core.Policy | None = None,
        tools: Sequence[_core.Tool] | None = None,
    ) -> AsyncRun:
        """Starts a run: an agent works on a task, with these files. It continues without this client. Omitted options
        have the service's defaults."""
        body = _core.new_run(
            task,
            files,
            model=model,
            environment=environment,
            isolation=isolation,
            language=language,
            budget=budget,
            approvals=approvals,
            tools=tools,
        )
        return AsyncRun(self, await self._ask(models.RunView, Call.change("POST", "/v1/runs", json=body)))

    async def attach_run(self, id: str) -> AsyncRun:
        """An existing run, running or ended."""
        return AsyncRun(self, await self._ask(models.RunView, Call("GET", f"/v1/runs/{_core.part(id)}")))

    async def runs(self) -> AsyncIterator[models.RunBrief]:
        """All runs of the tenant, newest first."""
        async for page in self._pages(models.RunPage, "/v1/runs"):
            for run in page.runs:
                yield run

    async def _pages(self, model: type[PageT], path: str, only: Json | None = None) -> AsyncIterator[PageT]:
        query: dict[str, str | int] = {"limit": 200, **(only or {})}
        while True:
            page = await self._ask(model, Call("GET", path, query=query))
            yield page
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor

    def _hold(self, view: models.SessionView) -> AsyncSession:
        session = AsyncSession(self, view)
        self._started[view.id] = session
        return session

    async def _ask(self, model: type[ModelT], call: Call) -> ModelT:
        return _core.parse(model, (await self._send(call)).content)

    async def _send(self, call: Call, to: BinaryIO | None = None) -> httpx.Response:
        """A successful response: read completely, into a file, or not yet if it is a stream."""
        if self._http.is_closed:
            raise _core.closed()
        attempts = _core.Attempts(self._retries)
        while True:
            try:
                return await self._once(call, to)
            except httpx.ConnectError as failure:
                error = self._access.unreachable(failure)
                if not self._answered:
                    # There is none, most likely: better to say so at once.
                    raise error from None
            except httpx.TransportError as failure:
                error = self._access.unreachable(failure)
                if call.once:
                    raise error from failure
            except BelljarError as refusal:
                error = refusal
            await asyncio.sleep(attempts.wait(error, call.final))

    async def _once(self, call: Call, to: BinaryIO | None) -> httpx.Response:
        content = call.upload.achunks() if call.upload is not None else None
        request = self._http.build_request(call.method, call.path, content=content, **call.options())
        response = await self._http.send(request, stream=True)
        self._answered = True
        if response.is_success and call.stream:
            return response
        try:
            if response.is_success and to is not None:
                to.seek(0)
                to.truncate()
                async for chunk in response.aiter_bytes():
                    to.write(chunk)
            else:
                await response.aread()
        finally:
            await response.aclose()
        if not response.is_success:
            raise self._access.problem(response)
        return response

    async def _save(self, call: Call, to: str | os.PathLike[str]) -> httpx.Response:
        """Writes a response to a file, atomically."""
        path = Path(to)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
            try:
                response = await self._send(call, file)  # type: ignore[arg-type]
                file.close()
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
        return response


class AsyncSession:
    """A live interpreter with a workspace. `async with` ends it."""

    def __init__(self, client: AsyncBelljar, view: models.SessionView) -> None:
        self.id = view.id
        self.limits = view.limits
        self._client = client
        self._path = f"/v1/sessions/{_core.part(view.id)}"
        self.files = AsyncFiles(client, self._path)
        """The files of its workspace."""
        self.commands = AsyncCommands(client, self._path)
        """Programs that run in it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with contextlib.suppress(*([BelljarError] if kind else [])):
            await self.close()

    async def close(self) -> None:
        """Ends the session, even while a cell is running. No effect on an ended one."""
        with contextlib.suppress(NotFound, SessionEnded):
            await self._client._send(Call.change("DELETE", self._path))
        self.keep()

    def keep(self) -> None:
        """Keeps the session alive when its client is closed. `attach` finds it by its `id`."""
        self._client._started.pop(self.id, None)

    async def info(self) -> models.SessionView:
        """State and resource use (`use`) of the session. Waits for no cell, and does not wake the session."""
        return await self._ask(models.SessionView, Call("GET", self._path))

    async def update(
        self, *, name: str | None = None, metadata: Mapping[str, str] | None = None, ttl: int | None = None
    ) -> models.SessionView:
        """Changes name, metadata (all of it) or time to live (seconds from now; 0: none) of the session."""
        body = _core.label(name, metadata, ttl)
        return await self._ask(models.SessionView, Call.change("PATCH", self._path, json=body))

    async def extend(self, seconds: int, *, then: models.LeaseEnd = "end") -> models.SessionView:
        """Moves the end of the session's lease to so many seconds from now. It ends then, or sleeps (`"sleep"`): it
        hibernates, and its next use wakes it."""
        call = Call.change("POST", f"{self._path}/lease", json={"seconds": seconds, "then": then})
        return await self._ask(models.SessionView, call)

    async def port(self, port: int) -> models.PortView:
        """How to reach a program that listens on a port of the session, where the service offers ports: host name, URL,
        token, and a link for a browser."""
        return await self._ask(models.PortView, Call.change("POST", f"{self._path}/ports/{port}"))

    async def fetch(
        self,
        port: int,
        path: str = "/",
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        content: bytes | str | None = None,
    ) -> httpx.Response:
        """Sends a request to a program that listens on a port of the session, and returns its response, whatever its
        status is. Needs no DNS: the request goes to the address of the service. The response is untrusted."""
        view = await self.port(port)
        if not path.startswith("/"):
            raise ValueError(f"the path of a request starts with '/', unlike {path!r}")
        # As it is: `//name` is a path here, too, and no host that would get the token.
        url = httpx.URL(self._client._access.url).copy_with(raw_path=path.encode())
        passed = {**(headers or {}), "Host": view.host, "X-Belljar-Port-Token": view.token}
        return await self._client._http.request(method, url, headers=passed, content=content, timeout=_core.SILENCE + 5)

    async def run(
        self,
        code: str,
        *,
        namespace: str | None = None,
        stream: Callable[[Event], object] | None = None,
        wall_time: float | None = None,
        when_busy: _core.WhenBusy = "wait",
        on_failure: _core.OnFailure = "keep",
        on_input: Callable[[str, bool], object] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> models.Outcome:
        """Runs a cell to its end.

        An exception in the code is part of the outcome; `raise_for_status` raises it. `namespace` is one of the
        session's, if not `main`. `stream` is called with each event. `wall_time` is the time limit in seconds, at most the session's limit. `variables` are environment
        variables of this cell alone. Ctrl-C or a cancelled task interrupts the cell.

        `on_input` answers `input()` and `getpass()` of the code: it is called with the prompt and whether the answer is
        a password, and returns the line, or `None` for the end of input. Without it, they raise `EOFError`.
        """
        events = self.stream(
            code,
            namespace=namespace,
            wall_time=wall_time,
            when_busy=when_busy,
            on_failure=on_failure,
            variables=variables,
            answers_input=on_input is not None,
        )
        try:
            async for event in events:
                if stream is not None:
                    told = stream(event)
                    if inspect.isawaitable(told):  # async
                        await told  # async
                if on_input is not None and event.type == "input_requested":
                    await self._answer(event, on_input)
        except BelljarError as error:
            if error.code != "events_gone":
                raise
            # More events than are kept came while the connection was lost; the outcome is kept.
            return await self._outcome(events.reading)
        except asyncio.CancelledError:
            if events.cell is not None:
                with contextlib.suppress(BelljarError, httpx.HTTPError):
                    await self._client._once(Call.change("POST", f"{self._path}/interrupt", read=5.0), None)
            raise
        finally:
            await events.close()
        if events.outcome is None:
            raise BelljarError("bad_answer", "the service returned no outcome")
        return events.outcome

    def stream(
        self,
        code: str,
        *,
        namespace: str | None = None,
        wall_time: float | None = None,
        when_busy: _core.WhenBusy = "wait",
        on_failure: _core.OnFailure = "keep",
        answers_input: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> AsyncEvents:
        """Runs a cell and yields its events, the outcome last.

        After a broken connection, the client reconnects and continues after the last event. The cell starts with the
        first requested event, and runs to its end without a listener; `interrupt` stops it. With `answers_input`, code
        that calls `input()` waits for `answer_input` after the event `input_requested`.
        """
        body = {
            **_core.cell(code, namespace, wall_time, when_busy, on_failure, answers_input),
            **_core.variables(variables),
        }
        longest = self.limits.wall_time_ms / 1000
        access, retries = self._client._access, self._client._retries
        return AsyncEvents(self._client, CellReading(access, self._path, body, longest, retries))

    async def _outcome(self, reading: CellReading) -> models.Outcome:
        while True:
            cell = await self._ask(models.CellView, reading.show())
            if cell.outcome is not None:
                return cell.outcome
            if cell.state == "failed":
                raise BelljarError("internal", "the service failed while the cell ran")
            await asyncio.sleep(0.5)

    async def _answer(self, event: models.InputRequestedEvent, on_input: Callable[[str, bool], object]) -> None:
        line: object = None
        try:
            line = on_input(event.prompt, event.password)
            if inspect.isawaitable(line):  # async
                line = await line  # async
            if not (line is None or isinstance(line, str)):
                raise TypeError(f"on_input must return a string or None, not {type(line).__name__}")
        except BaseException:
            # Nobody will answer: the code must not wait.
            with contextlib.suppress(BelljarError, httpx.HTTPError):
                await self.interrupt()
            raise
        try:
            await self.answer_input(event, line)
        except BelljarError as error:
            # The code was interrupted meanwhile.
            if error.code != "no_question":
                raise

    async def answer_input(self, event: models.InputRequestedEvent, line: str | None) -> None:
        """Answers a question of a running cell; `None` is the end of input."""
        answer: Json = {"eof": True} if line is None else {"text": line}
        await self._change(f"cells/{event.call.cell}/input", {"number": event.call.number, **answer})

    async def interrupt(self) -> bool:
        """Interrupts the running cell, like Ctrl-C. False if none is running."""
        call = Call.change("POST", f"{self._path}/interrupt")
        return (await self._ask(models.Interrupted, call)).interrupted

    async def manifest(self, *, namespace: str | None = None) -> list[models.NameInfo]:
        """The names of a namespace, if not `main`."""
        query = {} if namespace is None else {"namespace": namespace}
        return (await self._ask(models.Manifest, Call("GET", f"{self._path}/manifest", query=query))).names

    async def create_namespace(self, name: str, *, directory: str | None = None) -> models.NamespaceView:
        """Adds an empty namespace: `run(namespace=name)` runs cells in it. Its first cell starts in the directory,
        relative to the workspace."""
        body = {"name": name} if directory is None else {"name": name, "directory": directory}
        return await self._ask(models.NamespaceView, Call.change("POST", f"{self._path}/namespaces", json=body))

    async def namespaces(self) -> list[models.NamespaceView]:
        """The namespaces, `main` first."""
        return (await self._ask(models.NamespaceList, Call("GET", f"{self._path}/namespaces"))).namespaces

    async def restart_namespace(self, name: str) -> None:
        """Forgets the variables of a namespace."""
        await self._change(f"namespaces/{_core.part(name)}/restart", {})

    async def delete_namespace(self, name: str) -> None:
        """Removes a namespace with its variables."""
        await self._client._send(Call.change("DELETE", f"{self._path}/namespaces/{_core.part(name)}"))

    async def cell(self, number: int) -> models.CellView:
        """One of the last cells, with its outcome."""
        return await self._ask(models.CellView, Call("GET", f"{self._path}/cells/{number}"))

    async def checkpoint(self, name: str) -> None:
        """Makes a named checkpoint of the session."""
        await self._change("checkpoints", {"name": name})

    async def checkpoints(self) -> list[models.CheckpointView]:
        """The checkpoints, newest last."""
        return (await self._ask(models.CheckpointList, Call("GET", f"{self._path}/checkpoints"))).checkpoints

    async def forget(self, name: str) -> None:
        """Deletes a named checkpoint."""
        await self._client._send(Call.change("DELETE", f"{self._path}/checkpoints/{_core.part(name)}"))

    async def restore(self, name: str | None = None, *, cell: int | None = None) -> None:
        """Restores a checkpoint: by name, or the newest one after a cell."""
        body = {"name": name, "cell": cell}
        await self._change("restore", {key: value for key, value in body.items() if value is not None})

    async def fork(self, count: int = 1, *, secrets: Sequence[str] = ()) -> list[AsyncSession]:
        """Forks the session, which continues unchanged. The forks get the secrets that are named; `["*"]`: all."""
        body = {"count": count, "secrets": list(secrets)} if secrets else {"count": count}
        forks = await self._ask(models.Forks, Call.change("POST", f"{self._path}/fork", json=body))
        return [self._client._hold(view) for view in forks.sessions]

    async def snapshot(self, to: str | os.PathLike[str]) -> int:
        """Saves a snapshot to a file. Returns the number of omitted names and files."""
        response = await self._client._save(Call("GET", f"{self._path}/snapshot"), to)
        return int(response.headers.get("belljar-left-out", 0))

    async def archive(self, to: str | os.PathLike[str]) -> None:
        """Saves the files of the workspace as a tar archive."""
        await self._client._save(Call("GET", f"{self._path}/archive"), to)

    async def hibernate(self) -> models.LeftOut:
        """Hibernates the session. Returns what it will lack when it wakes. Its next use wakes it."""
        return await self._ask(models.LeftOut, Call.change("POST", f"{self._path}/hibernate"))

    async def wake(self) -> None:
        """Wakes a hibernated session."""
        await self._client._send(Call.change("POST", f"{self._path}/wake"))

    async def _ask(self, model: type[ModelT], call: Call) -> ModelT:
        return await self._client._ask(model, call)

    async def _change(self, what: str, body: Json) -> None:
        await self._client._send(Call.change("POST", f"{self._path}/{what}", json=body))


class AsyncEvents:
    """The events of a cell. `async with` closes the connection early; the cell keeps running."""

    def __init__(self, client: AsyncBelljar, reading: CellReading) -> None:
        self._client = client
        self.reading = reading
        self._events = self._read()

    @property
    def cell(self) -> int | None:
        """The number of the cell, after its start."""
        return self.reading.number

    @property
    def outcome(self) -> models.Outcome | None:
        """The outcome, after the end of the cell."""
        return self.reading.outcome

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await self._events.__anext__()

    async def __aenter__(self) -> AsyncEvents:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection."""
        await self._events.aclose()

    async def _read(self) -> _core.AsyncReading:
        reading = self.reading
        while reading.outcome is None:
            response = await self._client._send(reading.call())
            _core.listen(response)
            broke: Exception | None = None
            try:
                async for chunk in response.aiter_bytes():
                    for event in reading.feed(chunk):
                        yield event
            except httpx.TransportError as error:
                broke = error
            finally:
                await response.aclose()
            if reading.outcome is None:
                await asyncio.sleep(reading.lost(broke))


class AsyncRun:
    """A run. `view` is its last known state: `state`, `spent` and the rest."""

    def __init__(self, client: AsyncBelljar, view: models.RunView) -> None:
        self.id = view.id
        self.view = view
        self._client = client
        self._path = f"/v1/runs/{_core.part(view.id)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r}, {self.view.state!r})"

    @property
    def answer(self) -> str | None:
        """The answer, or the best one so far, after the end of the run."""
        return self.view.answer

    @property
    def waits_for(self) -> list[models.Approval]:
        """Pending approvals."""
        return self.view.waits_for

    @property
    def artifacts(self) -> list[models.Artifact]:
        """Files that the run made, after its end; `save` downloads them."""
        return self.view.artifacts

    def __aiter__(self) -> _core.AsyncRunReading:
        return self.events()

    def events(self, after: int = 0) -> _core.AsyncRunReading:
        """The events of the run after this number, to its end.

        After a broken connection, the client reconnects and continues after the last event. `view` is updated when the
        run needs approval and when it has ended.
        """
        return self._events(after, None)

    async def _events(self, after: int, until: float | None) -> _core.AsyncRunReading:
        reader = RunReader(self._client._access, self._path, after, self._client._retries)
        while not reader.ended:
            _core.check_time(until, self.id)
            response = await self._client._send(reader.call())
            _core.listen(response, until)
            broke: Exception | None = None
            try:
                async for chunk in response.aiter_bytes():
                    _core.check_time(until, self.id)
                    _core.listen(response, until)
                    for event in reader.feed(chunk):
                        if event.kind in ("approval_asked", "ended"):
                            await self.refresh()
                        yield event
            except httpx.TransportError as error:
                broke = error
            finally:
                await response.aclose()
            if not reader.ended:
                _core.check_time(until, self.id)
                if reader.is_whole(await self.refresh()):
                    return
                await asyncio.sleep(reader.lost(broke))

    async def result(
        self, timeout: float | None = None, *, on_approval: Callable[[models.Approval], object] | None = None
    ) -> models.RunView:
        """Waits for the end of the run. Returns its answer, reason, evidence and artifacts.

        After `timeout` seconds, it raises `TimeoutError`; the run continues. `on_approval` decides about pending
        approvals: it is called with each of them and returns `True` (run it), `False` (reject it), a string (reject it,
        with this feedback for the model) or `None` (somebody else decides). Without it, a run that needs approval waits
        until somebody decides.
        """
        until = _core.deadline(timeout)
        if on_approval is not None:
            for approval in (await self.refresh()).waits_for:
                await self._ask_about(approval, on_approval)
        async for event in self._events(self.view.events, until):
            if on_approval is not None and event.data.kind == "approval_asked":
                await self._ask_about(event.data, on_approval)
        return self.view

    async def _ask_about(self, approval: models.Approval, on_approval: Callable[[models.Approval], object]) -> None:
        said = on_approval(approval)
        if inspect.isawaitable(said):  # async
            said = await said  # async
        decision = _core.decision(said)
        if decision is None:
            return
        try:
            await self._decide(approval, decision)
        except BelljarError as error:
            # Somebody else was faster.
            if error.code != "approval_not_found":
                raise

    async def refresh(self) -> models.RunView:
        """The current state of the run."""
        self.view = await self._client._ask(models.RunView, Call("GET", self._path))
        return self.view

    async def approve(self, approval: models.Approval | None = None, *, rest_of_run: bool = False) -> None:
        """Approves a pending approval (default: the first of `waits_for`). `rest_of_run` also approves similar ones
        from now on."""
        await self._decide(approval, {"kind": "accept", "rest_of_run": rest_of_run})

    async def edit(self, code: str, approval: models.Approval | None = None) -> None:
        """Runs this code instead."""
        await self._decide(approval, {"kind": "edit", "code": code})

    async def reject(self, feedback: str | None = None, approval: models.Approval | None = None) -> None:
        """Rejects a pending approval, with optional feedback for the model."""
        refusal = {"kind": "reject"} if feedback is None else {"kind": "feedback", "text": feedback}
        await self._decide(approval, refusal)

    async def _decide(self, approval: models.Approval | None, decision: Json) -> None:
        if approval is None:
            if not self.waits_for:
                await self.refresh()
            if not self.waits_for:
                raise ValueError("the run waits for nobody")
            approval = self.waits_for[0]
        path = f"{self._path}/approvals/{_core.part(approval.id)}"
        # The decision is for exactly what was shown.
        body = {"hash": approval.hash, "decision": decision}
        await self._client._send(Call.change("POST", path, json=body))
        await self.refresh()

    async def cancel(self) -> None:
        """Cancels the run, with the best answer so far."""
        await self._change("cancel", {})

    async def interrupt(self) -> bool:
        """Interrupts the running cell, like Ctrl-C; the model sees this and continues. False if none is running."""
        call = Call.change("POST", f"{self._path}/interrupt", json={})
        return (await self._client._ask(models.Interrupted, call)).interrupted

    async def resume(self) -> None:
        """Resumes an interrupted run."""
        await self._change("resume", {})

    async def delete(self) -> None:
        """Deletes the ended run with its files. Runs that continue it stay unchanged."""
        # The run may take long: no request waits for its end.
        final = frozenset({"run_not_ended"})
        await self._client._send(Call.change("DELETE", self._path, final=final))

    async def raise_budget(self, budget: _core.Budget) -> None:
        """Raises the budget."""
        await self._change("budget", dict(budget))

    async def set_policy(self, approvals: _core.Policy) -> None:
        """Sets the approval policy for the rest of the run."""
        await self._change("policy", {"approvals": approvals})

    async def follow_up(self, task: str) -> AsyncRun:
        """Starts a follow-up: a run that continues from the end of this one."""
        return await self._go_on("follow-up", {"task": task})

    async def branch(self, step: int, task: str | None = None) -> AsyncRun:
        """Starts a branch: a run that continues after a step of this one (default: with the same task)."""
        return await self._go_on("branch", {"step": step} if task is None else {"step": step, "task": task})

    async def save(self, to: str | os.PathLike[str]) -> list[Path]:
        """Downloads the artifacts of the run into a directory. Returns their paths."""
        saved = []
        for artifact in self.artifacts:
            path = _core.destination(Path(to), artifact.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            call = Call("GET", f"{self._path}/artifacts/{_core.file_path(artifact.path)}")
            await self._client._save(call, path)
            saved.append(path)
        return saved

    async def export(self, to: str | os.PathLike[str]) -> None:
        """Exports the run as notebook, script or HTML page: `.ipynb`, `.py` or `.html`."""
        query = {"format": Path(to).suffix.removeprefix(".")}
        await self._client._save(Call("GET", f"{self._path}/export", query=query), to)

    async def reproduce(self) -> models.Reproduction:
        """Runs the code of the ended run again, twice, and compares its values and files. It takes about twice as long
        as the code took."""
        reader = _core.ReproductionReader(self._client._access, self._path)
        response = await self._client._send(reader.call)
        _core.listen(response)
        try:
            async for chunk in response.aiter_bytes():
                for reproduction in reader.feed(chunk):
                    return reproduction
        except httpx.TransportError as error:
            raise reader.broken(error) from error
        finally:
            await response.aclose()
        raise reader.broken()

    async def share(self, *, step: int | None = None, value: str | None = None) -> _core.Share:
        """Makes a link that shows the run without a key, until it is revoked: all of it, one step, or one value of the
        answer with how it was computed. `value` is as in `view.evidence`."""
        if value is not None:
            await self.refresh()
        call = Call.change("POST", f"{self._path}/shares", json=_core.shared_part(self.view, step, value))
        made = await self._client._ask(models.CreatedShare, call)
        return _core.Share(made.id, f"{self._client._access.url}/#/shared/{made.token}")

    async def shares(self) -> list[models.ShareView]:
        """The share links of the run, oldest first."""
        return (await self._client._ask(models.ShareList, Call("GET", f"{self._path}/shares"))).shares

    async def revoke_share(self, id: str) -> None:
        """Revokes a share link: it shows nothing from then on."""
        await self._client._send(Call.change("DELETE", f"{self._path}/shares/{_core.part(id)}"))

    async def _change(self, what: str, body: Json) -> None:
        call = Call.change("POST", f"{self._path}/{what}", json=body)
        self.view = await self._client._ask(models.RunView, call)

    async def _go_on(self, how: str, body: Json) -> AsyncRun:
        call = Call.change("POST", f"{self._path}/{how}", json=body)
        return AsyncRun(self._client, await self._client._ask(models.RunView, call))


class AsyncFiles:
    """The files of a session. Names are relative to its workspace, or below `/tmp`."""

    def __init__(self, client: AsyncBelljar, session: str) -> None:
        self._client = client
        self._session = session
        self._path = f"{session}/files"

    async def put(self, name: str | os.PathLike[str], source: bytes | str | os.PathLike[str] | None = None) -> None:
        """Uploads bytes, or the local file with this path, to the workspace. `put("local.csv")` uploads a local file
        under its own name. Large ones go in parts, so that a broken connection costs one part."""
        inside, upload = _core.named_source(name, source)
        if upload.size > _core.PART:
            return await self._put_in_parts(inside, upload)
        headers = {"Content-Type": "application/octet-stream"}
        await self._client._send(Call.change("PUT", self._one(inside), upload=upload, headers=headers))

    async def _put_in_parts(self, name: str, upload: _core.Upload) -> None:
        begin = Call.change("POST", f"{self._session}/uploads", headers=_core.whole_headers(name, upload.size))
        path = (await self._client._send(begin)).headers["Location"]
        offset = 0
        while offset < upload.size:
            try:
                response = await self._client._send(_core.part_call(path, upload, offset))
            except BelljarError as error:
                if error.code != "upload_offset":
                    raise
                response = await self._client._send(Call("HEAD", path, headers=_core.TUS))
            offset = int(response.headers["Upload-Offset"])

    async def get(self, name: str) -> bytes:
        """The contents of a file."""
        return (await self._client._send(Call("GET", self._one(name)))).content

    async def save(self, name: str, to: str | os.PathLike[str]) -> None:
        """Downloads a file of the workspace to a local file."""
        await self._client._save(Call("GET", self._one(name)), to)

    async def list(self, directory: str = "") -> models.FileList:
        """Lists the files of the workspace, or of a directory in it."""
        query = {"path": directory} if directory else {}
        return await self._client._ask(models.FileList, Call("GET", self._path, query=query))

    async def stat(self, name: str) -> models.FileStatusView:
        """The kind, size, permissions and time of change of a file or directory. Links are not followed."""
        call = Call("GET", f"{self._session}/stat", query={"path": name})
        return await self._client._ask(models.FileStatusView, call)

    async def exists(self, name: str) -> bool:
        """Whether there is a file, a directory or a link of this name."""
        try:
            await self.stat(name)
        except BelljarError as error:
            # Also below a file, or behind a link.
            if error.code not in ("file_not_found", "not_regular"):
                raise
            return False
        return True

    async def mkdir(self, name: str) -> None:
        """Makes a directory and its missing parents. One that exists is no error."""
        await self._client._send(Call.change("POST", f"{self._session}/directories", json={"path": name}))

    async def rename(self, name: str, to: str) -> None:
        """Renames a file or directory, and makes missing parents. A file with the new name is replaced."""
        await self._client._send(Call.change("POST", f"{self._session}/rename", json={"from": name, "to": to}))

    async def delete(self, name: str, *, recursive: bool = False) -> None:
        """Deletes a file or an empty directory; with `recursive`, a directory with its contents."""
        query = {"recursive": "true"} if recursive else {}
        await self._client._send(Call.change("DELETE", self._one(name), query=query))

    async def upload_directory(self, source: str | os.PathLike[str], name: str | None = None) -> None:
        """Uploads a local directory with all that is in it (default: under its own name). Files of the session are
        replaced, others stay."""
        path = Path(source)
        directory = path.resolve().name if name is None else name
        with tempfile.TemporaryDirectory() as scratch:
            archive = Path(scratch, "archive.tar")
            with archive.open("wb") as file:
                _directories.pack(path, file)
            upload, headers = _core.Upload(archive), {"Content-Type": "application/x-tar"}
            query = {"path": directory} if directory else {}
            call = Call.change("PUT", f"{self._session}/archive", upload=upload, headers=headers, query=query)
            await self._client._send(call)

    async def download_directory(self, name: str, to: str | os.PathLike[str]) -> None:
        """Downloads a directory with its files and directories into a local one, which is made if it does not exist.
        Local files are replaced, others stay."""
        query = {"path": name} if name else {}
        with tempfile.TemporaryFile() as file:
            await self._client._send(Call("GET", f"{self._session}/archive", query=query), file)
            file.seek(0)
            Path(to).mkdir(parents=True, exist_ok=True)
            _directories.unpack(file, Path(to))

    async def watch(self, directory: str = "") -> AsyncWatch:
        """Watches the workspace or a directory for changes, from now on. Directories in it are not watched."""
        reader = _core.WatchReader(self._client._access, self._session, directory)
        return AsyncWatch(reader, await self._client._send(reader.call()))

    async def put_frame(self, name: str, frame: pandas.DataFrame) -> None:
        """Uploads a data frame to the workspace, as `.csv` or `.parquet`."""
        await self.put(name, _core.from_frame(name, frame))

    async def get_frame(self, name: str) -> pandas.DataFrame:
        """A data frame from a `.csv` or `.parquet` of the workspace."""
        _core.frame_kind(name)
        return _core.to_frame(name, await self.get(name))

    def _one(self, name: str) -> str:
        return f"{self._path}/{_core.file_path(name)}"


class AsyncWatch:
    """The changes in a directory, for a `for` loop. A context manager, which ends the watch.

    An event has a `type` (`created`, `written`, `deleted`, `renamed` or `attributes`) and the `name` of the entry. After
    `overflowed`, some are missing: list the directory again. The loop ends when the directory is deleted, or the session
    hibernates or ends.
    """

    def __init__(self, reader: _core.WatchReader, response: httpx.Response) -> None:
        self._reader = reader
        self._response = response

    async def __aenter__(self) -> AsyncWatch:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the watch."""
        await self._response.aclose()

    async def __aiter__(self) -> _core.AsyncWatchReading:
        try:
            async for chunk in self._response.aiter_bytes():
                for event in self._reader.feed(chunk):
                    if not self._reader.ended:
                        yield event
        except httpx.TransportError as error:
            raise self._reader.broken(error) from error

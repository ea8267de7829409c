"""Commands of a session. `_sync_commands.py` is generated from `_async_commands.py`."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import httpx

from . import _core, models
from ._core import Call, CommandReader, CommandResult, Json
from ._errors import NotFound

if TYPE_CHECKING:
    from ._async import AsyncBelljar


class AsyncCommands:
    """Programs that run in a session, beside its cells."""

    def __init__(self, client: AsyncBelljar, session: str) -> None:
        self._client = client
        self._path = f"{session}/commands"

    async def run(
        self,
        command: str | Sequence[str],
        *,
        directory: str | None = None,
        variables: Mapping[str, str] | None = None,
        input: str | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        """Runs a command to its end: a line for the shell, or a program and its arguments.

        A command that fails does not raise: `exit_code` is in the result. `directory` is relative to the workspace,
        `variables` are environment variables, `input` is its standard input. `timeout` is in seconds (default: 10
        minutes). If the connection breaks, or the caller stops waiting, the command is killed.
        """
        body = _core.new_command(command, variables, timeout, directory=directory, input=input)
        read = (_core.PATIENCE if timeout is None else timeout) + _core.SILENCE
        call = Call("POST", self._path, json=body, read=read, once=True)
        return CommandResult.of(await self._client._ask(models.CommandView, call))

    async def start(
        self,
        command: str | Sequence[str],
        *,
        directory: str | None = None,
        variables: Mapping[str, str] | None = None,
        input: str | None = None,
        timeout: float | None = None,
        terminal: tuple[int, int] | None = None,
    ) -> AsyncCommand:
        """Starts a command in the background. It keeps running without this client, until its session hibernates or
        ends.

        `terminal` gives it a terminal with so many rows and columns. Without `input`, its standard input stays open
        for `send`. The other options are those of `run`, without a default timeout.
        """
        size = None if terminal is None else dict(zip(("rows", "columns"), terminal))
        body = _core.new_command(
            command, variables, timeout, directory=directory, input=input, terminal=size, background=True
        )
        view = await self._client._ask(models.CommandView, Call.change("POST", self._path, json=body))
        return AsyncCommand(self._client, self._path, view.pid)

    async def attach(self, pid: int) -> AsyncCommand:
        """A command that was started before, running or ended."""
        view = await self._client._ask(models.CommandView, Call("GET", f"{self._path}/{int(pid)}"))
        return AsyncCommand(self._client, self._path, view.pid)

    async def list(self) -> Sequence[models.CommandView]:
        """The running commands and the last ended ones, oldest first, without output."""
        return (await self._client._ask(models.CommandList, Call("GET", self._path))).commands


class AsyncCommand:
    """A command in the background. Iterating over it yields its output."""

    def __init__(self, client: AsyncBelljar, commands: str, pid: int) -> None:
        self.pid = pid
        """Its process id in the session."""
        self._client = client
        self._path = f"{commands}/{pid}"
        self._position = 0
        self._ended = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.pid})"

    def __aiter__(self) -> _core.AsyncCommandReading:
        return self.output()

    async def output(self, start: int = 0) -> _core.AsyncCommandReading:
        """The events of its output from this position on, in bytes, to its end.

        An event of type `output` has `stream`, `text` and `next`, the position after it; one of type `lost` has the
        number of `bytes` that are no longer kept. After a broken connection, the client reconnects and continues.
        """
        reader = CommandReader(self._client._access, self._path, start, self._client._retries)
        while not reader.ended:
            response = await self._client._send(reader.call())
            _core.listen(response)
            broke: Exception | None = None
            try:
                async for chunk in response.aiter_bytes():
                    for event in reader.feed(chunk):
                        self._position, self._ended = reader.position, reader.ended
                        if not reader.ended:
                            yield event
            except httpx.TransportError as error:
                broke = error
            finally:
                await response.aclose()
            if not reader.ended:
                await asyncio.sleep(reader.lost(broke))

    async def wait(self) -> CommandResult:
        """Waits for its end. Returns how it ended, with its newest output."""
        if not self._ended:
            # One that was lost with its session has no output any more.
            with contextlib.suppress(NotFound):
                async for _ in self.output(self._position):
                    pass
        return CommandResult.of(await self.info())

    async def info(self) -> models.CommandView:
        """Its state, and its newest output."""
        return await self._client._ask(models.CommandView, Call("GET", self._path))

    async def send(self, data: str | bytes) -> None:
        """Writes to its standard input or its terminal. Waits while the program does not read."""
        await self._change("input", {"text": data} if isinstance(data, str) else _base64(data))

    async def close_input(self) -> None:
        """Closes its standard input. A terminal gets Ctrl-D."""
        await self._change("input", {"close": True})

    async def signal(self, name: str) -> None:
        """Sends a signal, such as `SIGINT`, to it and its children."""
        await self._change("signal", {"signal": name})

    async def resize(self, rows: int, columns: int) -> None:
        """Changes the size of its terminal."""
        await self._change("resize", {"rows": rows, "columns": columns})

    async def kill(self) -> None:
        """Kills it and its children. No effect on an ended one."""
        await self._client._send(Call.change("DELETE", self._path))

    async def _change(self, what: str, body: Json) -> None:
        await self._client._send(Call.change("POST", f"{self._path}/{what}", json=body))


def _base64(data: bytes) -> Json:
    return {"base64": base64.b64encode(data).decode()}

"""Pydantic AI: a session as the workspace of an agent.

    async with AsyncBelljar() as b:
        await agent.run("…", workspace=BelljarWorkspaceBackend(b))

Tools reach it as `ctx.workspace`. Pydantic AI derives its file operations from commands, so that links and permissions
are those of the session's own programs.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from .. import AsyncBelljar, AsyncSession, BelljarError, NotFound, SessionEnded
from ._common import NOT_FOUND, WORKSPACE, SessionOptions, exit_code, missing

try:
    from pydantic_ai.workspaces import (
        CommandResult,
        WorkspaceCommand,
        WorkspaceOutputLimitError,
        WorkspaceRef,
        WorkspaceTimeoutError,
        WorkspaceUnavailableError,
    )
    from pydantic_ai.workspaces.protocol import validate_timeout
except ImportError as error:
    raise missing("pydantic-ai", error) from error

__all__ = ["BelljarWorkspaceBackend"]

_PROVIDER = "belljar"
# What the service keeps of the output of a command.
_KEPT = 512 << 10


class BelljarWorkspaceBackend:
    """A session as a `WorkspaceBackend` with commands.

    Its first use starts a session with these options, or attaches to the one of `ref`. A run never ends it: closing the
    client that started it does, unless `(await backend.session()).keep()` was called. Without a timeout, a command has
    the service's 10 minutes.
    """

    def __init__(
        self, client: AsyncBelljar, *, ref: WorkspaceRef | None = None, options: SessionOptions | None = None
    ) -> None:
        if ref is not None and ref.provider != _PROVIDER:
            raise ValueError(f"the workspace is one of {ref.provider!r}, not of {_PROVIDER!r}")
        self._client = client
        self._ref = ref
        self._options = options or SessionOptions()
        self._starting: asyncio.Task[AsyncSession] | None = None

    @property
    def ref(self) -> WorkspaceRef | None:
        return self._ref

    async def session(self) -> AsyncSession:
        """The session; the first call starts it."""
        if self._starting is None or (self._starting.done() and not _has_started(self._starting)):
            self._starting = asyncio.ensure_future(self._start())
        with _gone():
            # Who stops waiting does not lose a session that starts.
            return await asyncio.shield(self._starting)

    async def working_dir(self) -> str:
        with _gone():
            # A workspace that is gone has no directory.
            await (await self.session()).info()
        return WORKSPACE

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        if isinstance(command, str) != shell:
            raise TypeError("a string needs shell=True, and a sequence of arguments shell=False")
        validate_timeout(timeout)
        session = await self.session()
        try:
            with _gone():
                ended = await session.commands.run(command, variables=env, timeout=timeout, input="")
        except BelljarError as error:
            if error.code != "command_not_started":
                raise
            return CommandResult(exit_code=NOT_FOUND, stdout="", stderr=error.detail)
        if ended.timed_out:
            limit = "its time limit" if timeout is None else f"{timeout:g} s"
            raise WorkspaceTimeoutError(f"killed after {limit}", stdout=ended.stdout, stderr=ended.stderr)
        if ended.omitted_bytes:
            raise WorkspaceOutputLimitError(
                f"the output has {ended.omitted_bytes} bytes more than are kept. Write it to a file and read a part",
                limit=_KEPT,
                stdout=ended.stdout,
                stderr=ended.stderr,
            )
        code = exit_code(ended)
        if code is None:
            raise WorkspaceUnavailableError(f"the command was lost: {ended.lost_because}")
        return CommandResult(exit_code=code, stdout=ended.stdout, stderr=ended.stderr)

    async def realpath(self, path: str) -> str:
        found = await self.run(["realpath", "-m", "--", path])
        if found.exit_code != 0:
            raise OSError(errno.ELOOP, found.stderr.strip(), path)
        return found.stdout.removesuffix("\n")

    async def _start(self) -> AsyncSession:
        if self._ref is not None:
            return await self._client.attach(self._ref.id)
        session = await self._client.session(**self._options)
        self._ref = WorkspaceRef(provider=_PROVIDER, id=session.id)
        return session


def _has_started(task: asyncio.Task[AsyncSession]) -> bool:
    return not task.cancelled() and task.exception() is None


@contextmanager
def _gone() -> Iterator[None]:
    """Tells a session that has ended from a service that fails, which may be tried again."""
    try:
        yield
    except (NotFound, SessionEnded) as error:
        raise WorkspaceUnavailableError(str(error)) from error

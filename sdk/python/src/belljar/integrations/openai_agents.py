"""OpenAI Agents: a session as the sandbox of a `SandboxAgent`.

async with AsyncBelljar() as b:
    config = RunConfig(sandbox=SandboxRunConfig(client=BelljarSandboxClient(b)))
    await Runner.run(agent, "…", run_config=config)
"""

from __future__ import annotations

import io
import tarfile
import tempfile
import uuid
from pathlib import Path
from typing import IO, Literal

from .. import AsyncBelljar, AsyncSession, BelljarError, NotFound, SessionEnded, _core
from ._common import NOT_FOUND, WORKSPACE, SessionOptions, exit_code, inside, missing, omission

try:
    from agents.sandbox.errors import (
        ConfigurationError,
        ErrorCode,
        ExecTimeoutError,
        ExecTransportError,
        WorkspaceArchiveReadError,
        WorkspaceArchiveWriteError,
        WorkspaceReadNotFoundError,
        WorkspaceWriteTypeError,
    )
    from agents.sandbox.manifest import Manifest
    from agents.sandbox.session import BaseSandboxClient, BaseSandboxSession, SandboxSession, SandboxSessionState
    from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot
    from agents.sandbox.types import ExecResult, User
    from agents.sandbox.util.tar_utils import should_skip_tar_member
except ImportError as error:
    raise missing("openai-agents", error) from error

__all__ = ["BelljarSandboxClient", "BelljarSandboxSession", "BelljarSandboxSessionState"]


class BelljarSandboxSessionState(SandboxSessionState):
    """What is stored of a sandbox: the id of its session, and no key."""

    type: Literal["belljar"] = "belljar"
    belljar_session_id: str


class BelljarSandboxSession(BaseSandboxSession):
    """A session as a sandbox. Closing it ends the session, after its files were saved as the snapshot asks for."""

    state: BelljarSandboxSessionState

    def __init__(self, session: AsyncSession, state: BelljarSandboxSessionState) -> None:
        self.session = session
        self.state = state

    async def running(self) -> bool:
        try:
            return (await self.session.info()).state != "ended"
        except (NotFound, SessionEnded):
            return False

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        _refuse_user(user)
        target = await self._validate_path_access(path)
        try:
            return io.BytesIO(await self.session.files.get(inside(str(target))))
        except BelljarError as error:
            if error.code == "file_not_found":
                raise WorkspaceReadNotFoundError(path=target, cause=error) from error
            raise WorkspaceArchiveReadError(path=target, cause=error, retryable=error.retry) from error

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        _refuse_user(user)
        target = await self._validate_path_access(path, for_write=True)
        contents = _bytes(target, data)
        try:
            await self.session.files.put(inside(str(target)), contents)
        except BelljarError as error:
            raise WorkspaceArchiveWriteError(path=target, cause=error, retryable=error.retry) from error

    async def persist_workspace(self) -> io.IOBase:
        """The files of the workspace as a tar archive, without links and without what the manifest calls ephemeral."""
        root = self._workspace_root_path()
        skipped = self._persist_workspace_skip_relpaths()
        with tempfile.TemporaryDirectory() as scratch:
            archive = Path(scratch, "workspace.tar")
            try:
                await self.session.archive(archive)
            except BelljarError as error:
                raise WorkspaceArchiveReadError(path=root, cause=error, retryable=error.retry) from error
            kept = tempfile.TemporaryFile()
            with tarfile.open(archive) as source, tarfile.open(fileobj=kept, mode="w") as to:
                for member in source:
                    if not should_skip_tar_member(member.name, skip_rel_paths=skipped, root_name=root.name):
                        to.addfile(member, source.extractfile(member) if member.isreg() else None)
            kept.seek(0)
        return kept

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Writes the files of a tar archive. The service refuses links and paths that lead elsewhere."""
        root = self._workspace_root_path()
        upload, headers = _core.Upload(_bytes(root, data)), {"Content-Type": "application/x-tar"}
        call = _core.Call.change("PUT", f"{self.session._path}/archive", upload=upload, headers=headers)
        try:
            await self.session._client._send(call)
        except BelljarError as error:
            raise WorkspaceArchiveWriteError(path=root, cause=error, retryable=error.retry) from error

    def _prepare_exec_command(
        self, *command: str | Path, shell: bool | list[str], user: str | User | None
    ) -> list[str]:
        _refuse_user(user)
        return super()._prepare_exec_command(*command, shell=shell, user=None)

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        argv = [str(part) for part in command]
        variables = await self.state.manifest.environment.resolve()
        try:
            ended = await self.session.commands.run(argv, variables=variables, timeout=timeout, input="")
        except BelljarError as error:
            if error.code == "command_not_started":
                return ExecResult(stdout=b"", stderr=error.detail.encode(), exit_code=NOT_FOUND)
            raise ExecTransportError(command=argv, cause=error, message=str(error), retryable=error.retry) from error
        if ended.timed_out:
            context = {"stdout": ended.stdout, "stderr": ended.stderr}
            raise ExecTimeoutError(command=argv, timeout_s=timeout, context=context)
        code = exit_code(ended)
        if code is None:
            raise ExecTransportError(command=argv, message=f"the command was lost: {ended.lost_because}")
        stdout = (omission(ended) + ended.stdout).encode()
        return ExecResult(stdout=stdout, stderr=ended.stderr.encode(), exit_code=code)

    async def _shutdown_backend(self) -> None:
        await self.session.close()


class BelljarSandboxClient(BaseSandboxClient[None]):
    """Starts sessions as sandboxes, with these options. Not supported: users, exposed ports, terminals."""

    backend_id = "belljar"
    supports_default_options = True

    def __init__(self, client: AsyncBelljar, *, options: SessionOptions | None = None) -> None:
        self._client = client
        self._options = options or SessionOptions()

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: None = None,
    ) -> SandboxSession:
        manifest = self._validate_manifest_for_create(manifest or Manifest())
        if manifest.root != WORKSPACE:
            raise _unsupported(f"the root of a manifest must be {WORKSPACE}, not {manifest.root}", "start")
        if manifest.users or manifest.groups:
            raise _unsupported("a session has one user: the manifest must have no users or groups", "start")
        id = uuid.uuid4()
        session = await self._client.session(**self._options)
        state = BelljarSandboxSessionState(
            session_id=id,
            manifest=manifest,
            snapshot=resolve_snapshot(snapshot, str(id)),
            belljar_session_id=session.id,
        )
        return self._wrap_session(BelljarSandboxSession(session, state))

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """The session of this state; if it has ended, a new one, with the files of the snapshot."""
        if not isinstance(state, BelljarSandboxSessionState):
            raise TypeError(f"the state is one of {state.type!r}, not of {self.backend_id!r}")
        state.assert_path_grants_rebound()
        try:
            session = await self._client.attach(state.belljar_session_id)
            lives = True
        except (NotFound, SessionEnded):
            session = await self._client.session(**self._options)
            lives = False
            state.belljar_session_id = session.id
            state.workspace_root_ready = False
        inner = BelljarSandboxSession(session, state)
        inner._set_start_state_preserved(lives)
        return self._wrap_session(inner)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """Ends the session."""
        await session._inner.shutdown()
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        return self._deserialize_session_state_payload(payload, BelljarSandboxSessionState)


def _bytes(path: Path, data: io.IOBase | IO[bytes]) -> bytes:
    contents = data.read()
    if isinstance(contents, str):
        return contents.encode()
    if not isinstance(contents, (bytes, bytearray)):
        raise WorkspaceWriteTypeError(path=path, actual_type=type(contents).__name__)
    return bytes(contents)


def _refuse_user(user: str | User | None) -> None:
    if user is not None:
        raise _unsupported(f"a session has one user: `user={user!r}` is not supported", "exec")


def _unsupported(message: str, op: Literal["start", "exec"]) -> ConfigurationError:
    return ConfigurationError(message=message, error_code=ErrorCode.SANDBOX_CONFIG_INVALID, op=op, context={})

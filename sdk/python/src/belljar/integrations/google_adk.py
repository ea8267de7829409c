"""Google ADK: code blocks of a model, or an environment with a shell and files, in sessions.

with Belljar() as b:
    agent = LlmAgent(name="analyst", model=model, code_executor=BelljarCodeExecutor(b))

async with AsyncBelljar() as b:
    tools = EnvironmentToolset(environment=BelljarEnvironment(b))
"""

from __future__ import annotations

import base64
import mimetypes
import threading
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from .. import AsyncBelljar, AsyncSession, Belljar, BelljarError, CellFailed, NotFound, Outcome, Session, SessionEnded
from .._mime import IMAGES
from ._common import TIMED_OUT, WORKSPACE, SessionOptions, cell_time, exit_code, file_error, inside, missing, omission

try:
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.code_executors.base_code_executor import BaseCodeExecutor
    from google.adk.code_executors.code_execution_utils import CodeExecutionInput, CodeExecutionResult, File
    from google.adk.environment import BaseEnvironment, ExecutionResult
except ImportError as error:
    raise missing("google-adk", error) from error

__all__ = ["BelljarCodeExecutor", "BelljarEnvironment"]


class BelljarCodeExecutor(BaseCodeExecutor):
    """Runs the code blocks of a model.

    Each session of ADK has a Belljar session of its own: its variables and files stay, and no other sees them. `close`
    ends them, and so does closing the client. Figures are returned as files.
    """

    stateful: bool = True
    _client: Belljar = PrivateAttr()
    _options: SessionOptions = PrivateAttr()
    _sessions: dict[str, Session] = PrivateAttr(default_factory=dict)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    def __init__(self, client: Belljar, *, options: SessionOptions | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        self._client = client
        self._options = options or SessionOptions()

    def execute_code(
        self, invocation_context: InvocationContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        id = code_execution_input.execution_id
        if id is None:
            # Nobody can come back to it.
            with self._client.session(**self._options) as session:
                return self._run(session, code_execution_input)
        with self._lock:
            if id not in self._sessions:
                self._sessions[id] = self._client.session(**self._options)
            session = self._sessions[id]
        try:
            return self._run(session, code_execution_input)
        except (NotFound, SessionEnded) as error:
            with self._lock:
                self._sessions.pop(id, None)
            return CodeExecutionResult(stderr=f"The session has ended; its variables are gone. {error}", exit_code=1)

    def close(self) -> None:
        """Ends the sessions."""
        with self._lock:
            sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            session.close()

    def _run(self, session: Session, given: CodeExecutionInput) -> CodeExecutionResult:
        for file in given.input_files:
            # What is text is base64, by ADK's own rule.
            contents = base64.b64decode(file.content) if isinstance(file.content, str) else file.content
            session.files.put(inside(file.name), contents)
        outcome = session.run(given.code, wall_time=cell_time(session.limits, self.timeout_seconds))
        return _result(outcome)


def _result(outcome: Outcome) -> CodeExecutionResult:
    shown = [display.text for display in outcome.displays if display.text]
    stdout = outcome.stdout + "\n".join(shown)
    stderr = outcome.stderr
    code = 0
    if not outcome.ok:
        stderr += str(CellFailed(outcome))
        code = TIMED_OUT if outcome.cause.kind in ("wall_time", "cpu_time") else 1
    return CodeExecutionResult(outcome.safe(stdout), outcome.safe(stderr), _figures(outcome), code)


def _figures(outcome: Outcome) -> list[File]:
    files = []
    for number, display in enumerate(outcome.displays, 1):
        for mime in IMAGES:
            data = display.data(mime)
            if data is not None:
                name = f"cell-{outcome.cell}-{number}{mimetypes.guess_extension(mime) or ''}"
                files.append(File(name, base64.b64encode(data), mime))
                break
    return files


class BelljarEnvironment(BaseEnvironment):
    """A session with a shell and files. `initialize` starts it, `close` ends it."""

    def __init__(self, client: AsyncBelljar, *, options: SessionOptions | None = None) -> None:
        self._client = client
        self._options = options or SessionOptions()
        self._session: AsyncSession | None = None

    @property
    def working_dir(self) -> Path:
        return Path(WORKSPACE)

    async def initialize(self) -> None:
        if self._session is None:
            self._session = await self._client.session(**self._options)
        self.is_initialized = True

    async def close(self) -> None:
        session, self._session = self._session, None
        self.is_initialized = False
        if session is not None:
            await session.close()

    async def execute(self, command: str, *, timeout: float | None = None) -> ExecutionResult:
        """Runs a line of the shell. Without a timeout, it has the service's 10 minutes."""
        ended = await self._started().commands.run(command, timeout=timeout)
        code = exit_code(ended)
        stderr = ended.stderr if ended.lost_because is None else f"{ended.stderr}\n{ended.lost_because}"
        stdout = omission(ended) + ended.stdout
        return ExecutionResult(1 if code is None else code, stdout, stderr, ended.timed_out)

    async def read_file(self, path: Path) -> bytes:
        name = inside(path.as_posix())
        try:
            return await self._started().files.get(name)
        except BelljarError as error:
            raise await self._file_error(error, name) from error

    async def write_file(self, path: Path, content: str | bytes) -> None:
        name = inside(path.as_posix())
        try:
            await self._started().files.put(name, content.encode() if isinstance(content, str) else content)
        except BelljarError as error:
            raise await self._file_error(error, name) from error

    async def _file_error(self, error: BelljarError, name: str) -> Exception:
        is_directory = False
        if error.code == "not_regular":
            files = self._started().files
            is_directory = await files.exists(name) and (await files.stat(name)).kind == "directory"
        return file_error(error, name, is_directory=is_directory)

    def _started(self) -> AsyncSession:
        if self._session is None:
            raise RuntimeError("the environment is not initialized, or closed: await initialize() first")
        return self._session

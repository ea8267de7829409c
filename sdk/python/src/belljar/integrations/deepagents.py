"""deepagents (LangChain): the files and the shell of an agent are those of a session.

with Belljar() as b, b.session() as session:
    agent = create_deep_agent(model=model, backend=BelljarSandbox(session))
"""

from __future__ import annotations

from .. import BelljarError, Session
from ._common import exit_code, inside, missing, omission

try:
    from deepagents.backends.protocol import (
        FILE_NOT_FOUND,
        INVALID_PATH,
        IS_DIRECTORY,
        PERMISSION_DENIED,
        ExecuteResponse,
        FileDownloadResponse,
        FileUploadResponse,
    )
    from deepagents.backends.sandbox import BaseSandbox
except ImportError as error:
    raise missing("deepagents", error) from error

__all__ = ["BelljarSandbox"]

_CODES = {
    "file_not_found": FILE_NOT_FOUND,
    "path_denied": PERMISSION_DENIED,
    "file_exists": IS_DIRECTORY,
    "bad_path": INVALID_PATH,
    "not_regular": INVALID_PATH,
}


class BelljarSandbox(BaseSandbox):
    """A session as the sandbox of a deep agent. It does not end the session: who started it does.

    `timeout` is the time limit of a command in seconds, unless the agent gives one.
    """

    def __init__(self, session: Session, *, timeout: int = 120) -> None:
        self.session = session
        self.timeout = timeout

    @property
    def id(self) -> str:
        return self.session.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a line of the shell in the workspace. A timeout is exit code 124."""
        seconds = timeout or self.timeout
        # One stream keeps the order of both.
        result = self.session.commands.run(f"exec 2>&1\n{command}", timeout=seconds)
        output = omission(result) + result.stdout
        if result.timed_out:
            output += f"\n[belljar: killed after {seconds} s]"
        elif result.lost_because is not None:
            output += f"\n[belljar: {result.lost_because}]"
        return ExecuteResponse(output, exit_code(result), truncated=result.omitted_bytes > 0)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path, self._upload(path, content)) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _upload(self, path: str, content: bytes) -> str | None:
        try:
            name = _absolute(path)
            if self.session.files.exists(name) and self.session.files.stat(name).kind == "directory":
                return IS_DIRECTORY
            self.session.files.put(name, content)
        except (BelljarError, ValueError, PermissionError) as error:
            return _told(error)
        return None

    def _download(self, path: str) -> FileDownloadResponse:
        try:
            name = _absolute(path)
            found = self.session.files.stat(name)
            if found.kind == "directory":
                return FileDownloadResponse(path, error=IS_DIRECTORY)
            # The service reads what the agent's own commands can't.
            if not found.mode & 0o400:
                return FileDownloadResponse(path, error=PERMISSION_DENIED)
            return FileDownloadResponse(path, self.session.files.get(name))
        except (BelljarError, ValueError, PermissionError) as error:
            return FileDownloadResponse(path, error=_told(error))


def _absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError("not an absolute path")
    return inside(path)


def _told(error: Exception) -> str:
    """The code that a model knows; service failures are raised."""
    if isinstance(error, BelljarError):
        if error.code not in _CODES:
            raise error
        return _CODES[error.code]
    return PERMISSION_DENIED if isinstance(error, PermissionError) else INVALID_PATH

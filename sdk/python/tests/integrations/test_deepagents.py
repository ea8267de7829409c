"""deepagents: LangChain's own suite for sandboxes, what it does not ask for, and an agent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from deepagents.backends.protocol import SandboxBackendProtocol
from langchain_tests.integration_tests.sandboxes import SandboxIntegrationTests

from belljar import Belljar, BelljarError, Session
from belljar.integrations.deepagents import BelljarSandbox
from conftest import Service

# langchain-tests 1.1.9 asks for what the protocol of deepagents 0.7.32 forbids, and its `BaseSandbox` does not do: globs
# with relative paths and with directories, and no overwriting.
OUTDATED = {
    "test_glob",
    "test_glob_basic_pattern",
    "test_glob_with_directories",
    "test_glob_hidden_files_explicitly",
    "test_glob_with_character_class",
    "test_glob_with_question_mark",
    "test_write_existing_file_fails",
}


class TestSuite(SandboxIntegrationTests):
    @pytest.fixture(autouse=True)
    def outdated(self, request: pytest.FixtureRequest) -> None:
        if request.node.name in OUTDATED:
            request.applymarker(pytest.mark.xfail(strict=True, raises=AssertionError, reason="outdated"))

    @property
    def sandbox_root_dir(self) -> str:
        return "/workspace"

    @pytest.fixture(scope="class")
    def sandbox(self, service: Service) -> Iterator[SandboxBackendProtocol]:
        with Belljar(service.url, service.key) as client, client.session() as session:
            yield BelljarSandbox(session)


def test_commands(session: Session) -> None:
    sandbox = BelljarSandbox(session)
    assert sandbox.id == session.id
    ran = sandbox.execute("echo one; echo two >&2; echo three; exit 3")
    assert (ran.output, ran.exit_code, ran.truncated) == ("one\ntwo\nthree\n", 3, False)
    slow = sandbox.execute("echo begun; sleep 60", timeout=1)
    assert slow.exit_code == 124 and slow.output.startswith("begun\n") and "killed after 1 s" in slow.output
    assert sandbox.execute("kill -9 $$").exit_code == 137
    loud = sandbox.execute("head -c 700000 /dev/zero | tr '\\0' x; echo end")
    assert loud.truncated and len(loud.output) < 600_000 and loud.output.endswith("end\n")


def test_paths_lead_nowhere_else(session: Session) -> None:
    sandbox = BelljarSandbox(session)
    session.commands.run("ln -s /etc/passwd link; mkfifo pipe; mkdir directory")
    paths = [
        "/etc/passwd",
        "/workspace/../etc/passwd",
        "/workspace/link",
        "/workspace/pipe",
        "/workspace/directory",
        "x",
    ]
    told = ["permission_denied", "permission_denied", "invalid_path", "invalid_path", "is_directory", "invalid_path"]
    assert [one.error for one in sandbox.download_files(paths)] == told
    assert [one.error for one in sandbox.upload_files([(path, b"") for path in paths])] == told
    assert sandbox.download_files(["/workspace/no\0such"])[0].error == "invalid_path"
    session.close()
    # A session that has ended is no matter of a path.
    with pytest.raises(BelljarError):
        sandbox.download_files(["/workspace/x"])
    with pytest.raises(BelljarError):
        sandbox.execute("true")

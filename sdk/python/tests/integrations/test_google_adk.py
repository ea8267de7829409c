"""Google ADK: code blocks and an environment in sessions, with a scripted model."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.code_executors.code_execution_utils import CodeExecutionInput, File
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from belljar import AsyncBelljar, Belljar, BelljarError
from belljar.integrations.google_adk import BelljarCodeExecutor, BelljarEnvironment


class Scripted(BaseLlm):
    """Replies with the given texts in order, and records the requests."""

    model: str = "scripted"
    texts: list[str]
    told: str = ""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.told = str(llm_request.contents)
        content = types.Content(role="model", parts=[types.Part(text=self.texts.pop(0))])
        yield LlmResponse(content=content)


def run(executor: BelljarCodeExecutor, code: str, id: str | None = "1", *files: File) -> Any:
    context: Any = None
    return executor.execute_code(context, CodeExecutionInput(code, list(files), id))


async def test_an_agent(client: Belljar) -> None:
    model = Scripted(texts=["```python\nx = 6 * 7\nprint('x is', x)\n```", "```python\nx / 0\n```", "It is 42."])
    executor = BelljarCodeExecutor(client)
    agent = LlmAgent(name="analyst", model=model, code_executor=executor)
    runner = InMemoryRunner(agent=agent)
    answers = [event for event in await runner.run_debug("What is 6 * 7?", quiet=True)]
    assert answers[-1].content is not None and answers[-1].content.parts is not None
    assert answers[-1].content.parts[0].text == "It is 42."
    assert "x is 42" in model.told and "ZeroDivisionError" in model.told
    (session,) = client.sessions()
    executor.close()
    with pytest.raises(BelljarError):
        client.attach(session.id)


def test_code(client: Belljar) -> None:
    executor = BelljarCodeExecutor(client, timeout_seconds=1)
    data = File("data.csv", base64.b64encode(b"a\n1\n").decode(), "text/csv")
    first = run(executor, "x = open('data.csv').read()\nprint(x)\nlen(x)", "1", data)
    assert (first.stdout, first.stderr, first.exit_code, first.output_files) == ("a\n1\n\n4", "", 0, [])
    # One conversation does not see the variables of another.
    assert "NameError" in run(executor, "x", "2").stderr
    assert run(executor, "len(x)", "1").stdout == "4"
    assert len(list(client.sessions())) == 2
    assert run(executor, "6 * 7", None).stdout == "42"
    assert len(list(client.sessions())) == 2
    late = run(executor, "while True: pass")
    assert late.exit_code == 124 and "wall_time" in late.stderr
    figure = "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()"
    executor.timeout_seconds = None
    (file,) = run(executor, figure).output_files
    assert file.mime_type == "image/png" and base64.b64decode(file.content).startswith(b"\x89PNG")
    for name in ("../etc/x", "/etc/x"):
        with pytest.raises(PermissionError, match="outside the workspace"):
            run(executor, "1", "1", File(name, b"x"))
    for session in client.sessions():
        client.attach(session.id).close()
    gone = run(executor, "x")
    assert gone.exit_code == 1 and "has ended" in gone.stderr
    assert run(executor, "1 + 1").stdout == "2"
    executor.close()
    executor.close()
    assert list(client.sessions()) == []


async def test_an_environment(aclient: AsyncBelljar) -> None:
    environment = BelljarEnvironment(aclient)
    with pytest.raises(RuntimeError, match="not initialized"):
        await environment.execute("true")
    await environment.initialize()
    await environment.initialize()
    assert environment.is_initialized and environment.working_dir == Path("/workspace")
    ran = await environment.execute("pwd; echo told >&2; exit 3")
    assert (ran.exit_code, ran.stdout, ran.stderr, ran.timed_out) == (3, "/workspace\n", "told\n", False)
    slow = await environment.execute("echo begun; sleep 60", timeout=0.5)
    assert (slow.exit_code, slow.stdout, slow.timed_out) == (124, "begun\n", True)
    loud = await environment.execute("head -c 700000 /dev/zero")
    assert loud.stdout.startswith("[belljar: ") and len(loud.stdout) < 600_000
    await environment.write_file(Path("a/b"), "text")
    await environment.write_file(Path("/workspace/a/c"), b"\0")
    assert await environment.read_file(Path("/workspace/a/b")) == b"text"
    assert await environment.read_file(Path("a/c")) == b"\0"
    for path, kind in [
        ("absent", FileNotFoundError),
        ("a", IsADirectoryError),
        ("a/b/c", NotADirectoryError),
        ("/etc/passwd", PermissionError),
        ("../etc/passwd", PermissionError),
    ]:
        with pytest.raises(kind):
            await environment.read_file(Path(path))
    with pytest.raises(IsADirectoryError):
        await environment.write_file(Path("a"), "")
    await environment.close()
    await environment.close()
    assert not environment.is_initialized and [session async for session in aclient.sessions()] == []

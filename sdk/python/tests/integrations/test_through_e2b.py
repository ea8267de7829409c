"""The frameworks' own backends for E2B, unchanged, against a service with `--e2b`: the three variables are all that they
are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import RunConfig, Runner
from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
from agents.run_config import SandboxRunConfig
from agents.sandbox import Manifest, SandboxAgent
from agents.sandbox.entries import File
from agents.testing import ScriptedModel, assistant_message, function_call
from deepagents import create_deep_agent
from deepagents.backends.protocol import SandboxBackendProtocol
from e2b import Sandbox
from google.adk.integrations.e2b import E2BEnvironment
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_e2b import E2BSandbox
from langchain_tests.integration_tests.sandboxes import SandboxIntegrationTests
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite
from pydantic_ai_harness.e2b_sandbox import E2BSandboxBackend
from smolagents import CodeAgent
from smolagents.monitoring import LogLevel

from conftest import Service

from .test_deepagents import OUTDATED
from .test_smolagents import Double, Scripted


@pytest.fixture(scope="module", autouse=True)
def variables(service: Service) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("E2B_API_URL", "E2B_SANDBOX_URL"):
            patch.setenv(name, f"{service.url}/e2b")
        patch.setenv("E2B_API_KEY", service.key)
        yield


def alive() -> list[str]:
    return [sandbox.sandbox_id for sandbox in Sandbox.list().next_items()]


def test_smolagents() -> None:
    steps = ["x = double(number + 1)\nprint('x is', x)", "1 / 0", "final_answer(x * 2)"]
    model = Scripted(*steps)
    agent = CodeAgent(tools=[Double()], model=model, executor_type="e2b", verbosity_level=LogLevel.OFF)
    assert agent.run("?", additional_args={"number": 20}) == 84
    assert "x is 42" in model.told and "ZeroDivisionError" in model.told
    # Its code ran there, and nowhere else.
    assert agent.python_executor.sandbox.run_code("x").text == "42"
    agent.cleanup()
    assert alive() == []


class TestDeepagents(SandboxIntegrationTests):
    """LangChain's suite for sandboxes."""

    @pytest.fixture(autouse=True)
    def outdated(self, request: pytest.FixtureRequest) -> None:
        if request.node.name in OUTDATED:
            request.applymarker(pytest.mark.xfail(strict=True, raises=AssertionError, reason="outdated"))

    @property
    def sandbox_root_dir(self) -> str:
        return "/home/user"

    @pytest.fixture(scope="class")
    def sandbox(self) -> Iterator[SandboxBackendProtocol]:
        with Sandbox.create() as sandbox:
            yield E2BSandbox(sandbox=sandbox)


class ChatModel(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def call(name: str, **arguments: str) -> AIMessage:
    return AIMessage("", tool_calls=[ToolCall(name=name, args=arguments, id=name)])


def test_deepagents() -> None:
    steps = [
        call("write_file", file_path="/home/user/squares.py", content="print(sum(n * n for n in range(10)))"),
        call("execute", command="python squares.py"),
        AIMessage("It is 285."),
    ]
    with Sandbox.create() as sandbox:
        agent = create_deep_agent(model=ChatModel(messages=iter(steps)), backend=E2BSandbox(sandbox=sandbox))
        state = agent.invoke({"messages": [{"role": "user", "content": "What is the sum of the first ten squares?"}]})
        assert [message.content for message in state["messages"]][-1] == "It is 285."
        assert "285" in state["messages"][-2].content
        assert sandbox.files.read("squares.py").startswith("print(")
    assert alive() == []


async def test_openai_agents() -> None:
    model = ScriptedModel(
        [
            [function_call("exec_command", {"cmd": "cat task.txt > copy.txt; wc -w < copy.txt"}, call_id="1")],
            [function_call("exec_command", {"cmd": "cat copy.txt; exit 3"}, call_id="2")],
            [assistant_message("Two words.")],
        ]
    )
    manifest = Manifest(entries={"task.txt": File(content=b"two words")})
    agent = SandboxAgent(name="reader", model=model, default_manifest=manifest)
    sandbox = SandboxRunConfig(client=E2BSandboxClient(), options=E2BSandboxClientOptions(sandbox_type="e2b"))
    config = RunConfig(sandbox=sandbox, tracing_disabled=True)
    result = await Runner.run(agent, "How many words?", run_config=config)
    assert result.final_output == "Two words."
    told = str(model.calls[-1])
    assert "two words" in told and "exited with code 3" in told
    assert alive() == []


# Their environments are all experimental.
@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
async def test_google_adk() -> None:
    environment = E2BEnvironment()
    await environment.initialize()
    try:
        ran = await environment.execute("pwd; echo told >&2; exit 3")
        assert (ran.exit_code, ran.stdout, ran.stderr, ran.timed_out) == (3, "/home/user\n", "told\n", False)
        assert (await environment.execute("sleep 60", timeout=0.5)).timed_out
        await environment.write_file(Path("a/b.txt"), "text é")
        assert await environment.read_file(Path("a/b.txt")) == "text é".encode()
        with pytest.raises(FileNotFoundError):
            await environment.read_file(Path("absent"))
    finally:
        await environment.close()
    assert alive() == []


# What of Pydantic AI's suite fails, and why.
DIFFERENT = {
    "test_permission_denied_uses_builtin_error": "files are read from outside, whatever their mode; E2B does so, too",
}


class TestPydanticAi(WorkspaceBackendSuite):
    """Pydantic AI's suite for backends. They end no sandbox themselves."""

    # For backends with a `realpath` of their own, which that of the harness is not.
    test_native_realpath_keeps_the_working_dir_and_missing_names = None  # type: ignore[assignment]

    @pytest.fixture(autouse=True)
    def different(self, request: pytest.FixtureRequest) -> None:
        if reason := DIFFERENT.get(request.node.name):
            request.applymarker(pytest.mark.xfail(strict=True, reason=reason))

    @pytest.fixture(autouse=True)
    def ended(self) -> Iterator[None]:
        yield
        for id in alive():
            Sandbox.kill(id)

    @pytest.fixture
    def backend(self) -> WorkspaceBackend:
        return E2BSandboxBackend()

    @pytest.fixture
    def fresh_backend(self) -> Callable[[], WorkspaceBackend]:
        return E2BSandboxBackend

    @pytest.fixture
    def attach_backend(self) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return lambda ref: E2BSandboxBackend(ref=ref)

    @pytest.fixture
    def destroy_environment(self) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        async def destroy(backend: WorkspaceBackend) -> None:
            assert backend.ref is not None
            Sandbox.kill(backend.ref.id)

        return destroy

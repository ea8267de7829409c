"""smolagents: agents whose code runs in a session, with a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from smolagents import CodeAgent, Tool
from smolagents.models import ChatMessage, MessageRole, Model
from smolagents.monitoring import LogLevel
from smolagents.utils import AgentError

from belljar import Belljar, NotFound, Session
from belljar.integrations.smolagents import BelljarExecutor
from conftest import Service


class Scripted(Model):  # type: ignore[misc, unused-ignore]
    """Replies with the given steps in order, and records the requests."""

    def __init__(self, *steps: str) -> None:
        super().__init__(model_id="scripted")
        self.steps = iter(steps)
        self.told = ""

    def generate(self, messages: list[ChatMessage], **_: Any) -> ChatMessage:
        self.told = str(messages)
        text = f"Thought: next.\n<code>\n{next(self.steps)}\n</code>"
        return ChatMessage(role=MessageRole.ASSISTANT, content=text)


class Double(Tool):  # type: ignore[misc, unused-ignore]
    name = "double"
    description = "Doubles a number."
    inputs = {"number": {"type": "integer", "description": "The number."}}
    output_type = "integer"

    def forward(self, number: int) -> int:
        return number * 2


def agent(session: Session, *steps: str, **more: Any) -> CodeAgent:
    model = Scripted(*steps)
    return CodeAgent(
        tools=[Double()], model=model, executor=BelljarExecutor(session, **more), verbosity_level=LogLevel.OFF
    )


@pytest.fixture
def executor(session: Session) -> Iterator[BelljarExecutor]:
    executor = BelljarExecutor(session)
    executor.send_tools(
        {"final_answer": CodeAgent(tools=[], model=Scripted(), executor=executor).tools["final_answer"]}
    )
    yield executor


def test_an_agent(session: Session) -> None:
    one = agent(session, "x = double(number + 1)\nprint('x is', x)", "1 / 0", "final_answer(x * 2)")
    assert one.run("?", additional_args={"number": 20}) == 84
    assert "x is 42" in one.model.told and "ZeroDivisionError" in one.model.told
    # Its code ran there, and nowhere else.
    assert session.run("x").value == "42"
    one.cleanup()
    with pytest.raises(NotFound):
        session.info()


def test_long_answers_and_other_types(executor: BelljarExecutor) -> None:
    answer = executor("final_answer('é' * 1_000_000)")
    assert (answer.is_final_answer, answer.output) == (True, "é" * 1_000_000)
    answer = executor("print('said')\nfinal_answer({'a': (1, 2), 'b': {3}, 4: b'5'})")
    assert answer.output == {"a": (1, 2), "b": {3}, 4: b"5"} and answer.logs == "said\n"
    value = executor("{'a': 1}")
    assert (value.output, value.logs, value.is_final_answer) == ("{'a': 1}", "", False)
    answer = executor("import numpy\nfinal_answer(numpy.arange(3))")
    assert answer.output.tolist() == [0, 1, 2]
    executor.send_variables({"given": {"x": [1, 2, 3]}})
    assert executor("sum(given['x'])").output == "6"


def test_failures_are_told_to_the_model(service: Service) -> None:
    with Belljar(service.url, service.key) as client, client.session() as session:
        executor = BelljarExecutor(session, wall_time=1)
        for code, told in [
            ("while True: pass", "wall_time"),
            ("1 +", "SyntaxError"),
            ("import no_such_module", "no_such_module"),
            ("import os; os._exit(3)", "exit"),
        ]:
            with pytest.raises(AgentError, match=told):
                executor(code)


def test_an_answer_that_lies(executor: BelljarExecutor) -> None:
    """The code of the session can write any answer. None of it is run here, and none is too large."""
    lie = "class FinalAnswerException(BaseException): pass\nopen('/tmp/.belljar-final-answer', 'w').write({!r})\nraise FinalAnswerException"
    for text in (
        "pickle:gASVIAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAV0b3VjaJSFlFKULg==",
        "safe:{",
        "",
        "safe:" + "[" * 100_000,
        'safe:{"__type__": "ndarray", "data": ["a"], "dtype": "S2000000000"}',
        'safe:{"__type__": "Decimal", "data": "x"}',
        'safe:{"__type__": "timedelta", "total_seconds": 1e300}',
        'safe:{"__type__": "PIL.Image", "data": "AAAA"}',
        'safe:{"__type__": "dataclass", "class_name": "X", "module": "os", "data": []}',
    ):
        with pytest.raises(AgentError, match="cannot be read"):
            executor(lie.format(text))
    with pytest.raises(AgentError, match="cannot be read"):
        executor("class FinalAnswerException(BaseException): pass\nraise FinalAnswerException")
    with pytest.raises(AgentError, match="longer than"):
        executor("final_answer('x' * 17_000_000)")


def test_packages_by_the_policy(service: Service) -> None:
    with Belljar(service.url, service.key) as client, client.session(packages=[]) as session:
        executor = BelljarExecutor(session)
        assert executor.install_packages(["numpy"]) == ["numpy"]
        with pytest.raises(Exception, match="package_not_allowed"):
            executor.install_packages(["humanize"])

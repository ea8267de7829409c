"""smolagents: a `CodeAgent` whose code runs in a session.

    pip install 'belljar[smolagents]'
    BELLJAR_API_KEY=… python with_smolagents.py

The model is a script here: put yours in its place.
"""

from __future__ import annotations

from typing import Any

from smolagents import CodeAgent
from smolagents.models import ChatMessage, MessageRole, Model

from belljar import Belljar
from belljar.integrations.smolagents import BelljarExecutor


class Scripted(Model):  # type: ignore[misc, unused-ignore]
    steps = iter(["squares = [n * n for n in range(10)]\nprint(squares)", "final_answer(sum(squares))"])

    def generate(self, messages: list[ChatMessage], **_: Any) -> ChatMessage:
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>\n{next(self.steps)}\n</code>")


def main(model: Model) -> None:
    with Belljar() as belljar, belljar.session() as session:
        agent = CodeAgent(tools=[], model=model, executor=BelljarExecutor(session), verbosity_level=0)
        print(agent.run("What is the sum of the first ten squares?"))


if __name__ == "__main__":
    main(Scripted(model_id="scripted"))

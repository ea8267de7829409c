"""deepagents (LangChain): an agent whose files and shell are those of a session.

    pip install 'belljar[deepagents]'
    BELLJAR_API_KEY=… python with_deepagents.py

The model is a script here: put yours in its place.
"""

from __future__ import annotations

from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall

from belljar import Belljar
from belljar.integrations.deepagents import BelljarSandbox


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def call(name: str, **arguments: str) -> AIMessage:
    return AIMessage("", tool_calls=[ToolCall(name=name, args=arguments, id=name)])


STEPS = [
    call("write_file", file_path="/workspace/squares.py", content="print(sum(n * n for n in range(10)))"),
    call("execute", command="python squares.py"),
]


def main(model: BaseChatModel) -> None:
    with Belljar() as belljar, belljar.session() as session:
        agent = create_deep_agent(model=model, backend=BelljarSandbox(session))
        state = agent.invoke({"messages": [{"role": "user", "content": "What is the sum of the first ten squares?"}]})
        print(state["messages"][-1].content)
        print(session.files.get("squares.py").decode())


if __name__ == "__main__":
    main(Scripted(messages=iter([*STEPS, AIMessage("It is 285.")])))

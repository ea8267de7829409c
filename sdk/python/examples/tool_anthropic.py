"""A session as a tool for a model, in the form of the Anthropic SDK (messages); figures go back as images.

    pip install anthropic belljar
    ANTHROPIC_API_KEY=… BELLJAR_API_KEY=… python tool_anthropic.py "Draw a sine."

The tests run `answer` with a stand-in for the model.
"""

from __future__ import annotations

import sys
from base64 import b64encode
from typing import Any

from belljar import Belljar, Session

TOOL: dict[str, Any] = {
    "name": "run_python",
    "description": "Runs Python. Variables stay. What is printed, figures and the value of the last line are the answer.",
    "input_schema": {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "Python source."}},
        "required": ["code"],
    },
}


def handle(session: Session, use: Any) -> dict[str, Any]:
    """Carries out a use of the tool; the block that answers it."""
    if not isinstance(use.input, dict) or not isinstance(use.input.get("code"), str):
        content: list[Any] = [{"type": "text", "text": 'The input is not of the form {"code": "..."}.'}]
        return {"type": "tool_result", "tool_use_id": use.id, "content": content, "is_error": True}
    outcome = session.run(use.input["code"], wall_time=20)
    content = [{"type": "text", "text": str(outcome) or "(nothing was printed)"}]
    for display in outcome.displays:
        if display.png is not None:
            image = {"type": "base64", "media_type": "image/png", "data": b64encode(display.png).decode()}
            content.append({"type": "image", "source": image})
    return {"type": "tool_result", "tool_use_id": use.id, "content": content, "is_error": not outcome.ok}


def answer(client: Any, session: Session, question: str, model: str = "claude-sonnet-5") -> str:
    """Asks a model that can run Python."""
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(10):
        message = client.messages.create(model=model, max_tokens=4096, messages=messages, tools=[TOOL])
        messages.append({"role": "assistant", "content": message.content})
        if message.stop_reason != "tool_use":
            return "".join(block.text for block in message.content if block.type == "text")
        uses = [block for block in message.content if block.type == "tool_use"]
        messages.append({"role": "user", "content": [handle(session, use) for use in uses]})
    raise RuntimeError("the model did not come to an end")


if __name__ == "__main__":
    from anthropic import Anthropic

    with Belljar() as belljar, belljar.session() as session:
        print(answer(Anthropic(), session, " ".join(sys.argv[1:]) or "What is the 100th prime?"))

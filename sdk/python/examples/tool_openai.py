"""A session as a tool for a model, in the form of the OpenAI SDK (chat completions).

    pip install openai belljar
    OPENAI_API_KEY=… BELLJAR_API_KEY=… python tool_openai.py "What is the 100th prime?"

The tests run `answer` with a stand-in for the model.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from belljar import Belljar, Session

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "run_python",
        "description": "Runs Python. Variables stay. What is printed and the value of the last line are the answer.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "Python source."}},
            "required": ["code"],
            "additionalProperties": False,
        },
    },
}


def handle(session: Session, call: Any) -> dict[str, Any]:
    """Carries out a call of the tool; the message that answers it."""
    try:
        code = json.loads(call.function.arguments)["code"]
    except (ValueError, KeyError, TypeError):
        text = 'The arguments are not of the form {"code": "..."}.'
    else:
        # An exception is an answer, too: the model reads it and mends its code.
        text = str(session.run(code, wall_time=20)) or "(nothing was printed)"
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def answer(client: Any, session: Session, question: str, model: str = "gpt-5-mini") -> str:
    """Asks a model that can run Python."""
    messages: list[Any] = [{"role": "user", "content": question}]
    for _ in range(10):
        completion = client.chat.completions.create(model=model, messages=messages, tools=[TOOL])
        message = completion.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return str(message.content)
        messages += [handle(session, call) for call in message.tool_calls]
    raise RuntimeError("the model did not come to an end")


if __name__ == "__main__":
    from openai import OpenAI

    with Belljar() as belljar, belljar.session() as session:
        print(answer(OpenAI(), session, " ".join(sys.argv[1:]) or "What is the 100th prime?"))

"""Google ADK: an agent whose code blocks run in a session.

    pip install 'belljar[google-adk]'
    BELLJAR_API_KEY=… python with_google_adk.py

The model is a script here: put yours in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from belljar import Belljar
from belljar.integrations.google_adk import BelljarCodeExecutor


class Scripted(BaseLlm):
    texts: list[str] = ["```python\nprint(sum(n * n for n in range(10)))\n```", "It is 285."]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=self.texts.pop(0))]))


async def main(model: BaseLlm) -> None:
    with Belljar() as belljar:
        agent = LlmAgent(name="analyst", model=model, code_executor=BelljarCodeExecutor(belljar))
        events = await InMemoryRunner(agent=agent).run_debug("What is the sum of the first ten squares?", quiet=True)
        for event in events:
            for part in (event.content and event.content.parts) or []:
                print(part.text or part.code_execution_result)


if __name__ == "__main__":
    asyncio.run(main(Scripted(model="scripted")))

"""Pydantic AI: an agent whose workspace is a session.

    pip install 'belljar[pydantic-ai]'
    BELLJAR_API_KEY=… python with_pydantic_ai.py

The model is a script here: put yours in its place.
"""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, ModelMessage, ModelResponse, RunContext, TextPart, ToolCallPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from belljar import AsyncBelljar
from belljar.integrations.pydantic_ai import BelljarWorkspaceBackend


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if len(messages) > 1:
        return ModelResponse([TextPart(f"The shell says {messages[-1].parts[0].content}")])  # type: ignore[union-attr]
    return ModelResponse(
        [ToolCallPart("shell", {"command": "seq 9 | python -c 'print(sum(int(input())**2 for _ in range(9)))'"})]
    )


async def main(model: Model) -> None:
    agent = Agent(model)

    @agent.tool
    async def shell(ctx: RunContext, command: str) -> str:
        result = await ctx.workspace.run(command, shell=True, timeout=60)
        return result.stdout + result.stderr

    async with AsyncBelljar() as belljar:
        backend = BelljarWorkspaceBackend(belljar)
        result = await agent.run("What is the sum of the first ten squares?", workspace=backend)
        print(result.output.strip())


if __name__ == "__main__":
    asyncio.run(main(FunctionModel(scripted)))

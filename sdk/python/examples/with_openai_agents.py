"""OpenAI Agents: a `SandboxAgent` whose sandbox is a session.

    pip install 'belljar[openai-agents]'
    BELLJAR_API_KEY=… python with_openai_agents.py

The model is a script here: put yours in its place.
"""

from __future__ import annotations

import asyncio

from agents import Model, RunConfig, Runner
from agents.run_config import SandboxRunConfig
from agents.sandbox import SandboxAgent
from agents.testing import ScriptedModel, assistant_message, function_call

from belljar import AsyncBelljar
from belljar.integrations.openai_agents import BelljarSandboxClient

STEPS = [
    [function_call("exec_command", {"cmd": "python -c 'print(sum(n * n for n in range(10)))'"}, call_id="1")],
    [assistant_message("It is 285.")],
]


async def main(model: Model) -> None:
    agent = SandboxAgent(name="analyst", model=model)
    async with AsyncBelljar() as belljar:
        config = RunConfig(sandbox=SandboxRunConfig(client=BelljarSandboxClient(belljar)), tracing_disabled=True)
        result = await Runner.run(agent, "What is the sum of the first ten squares?", run_config=config)
        print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(ScriptedModel(STEPS)))

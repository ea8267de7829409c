"""AutoGen: an agent that runs the code blocks of others in a session.

    pip install 'belljar[autogen]' autogen-agentchat
    BELLJAR_API_KEY=… python with_autogen.py

This agent has no model: it runs what it reads.
"""

from __future__ import annotations

import asyncio

from autogen_agentchat.agents import CodeExecutorAgent

from belljar.integrations.autogen import BelljarCodeExecutor

TASK = """Please run this:
```python
squares = [n * n for n in range(10)]
print(sum(squares))
```
"""


async def main(task: str) -> None:
    async with BelljarCodeExecutor(timeout=60) as executor:
        agent = CodeExecutorAgent("runner", code_executor=executor)
        result = await agent.run(task=task)
        print(result.messages[-1].to_text())


if __name__ == "__main__":
    asyncio.run(main(TASK))

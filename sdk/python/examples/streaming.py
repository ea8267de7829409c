"""What a cell prints, while it prints it; several cells at once. BELLJAR_API_KEY=… python streaming.py"""

from __future__ import annotations

import asyncio

from belljar import AsyncBelljar, AsyncSession

CODE = """
import time
for step in range(3):
    print("step", step, flush=True)
    time.sleep(0.1)
"""


async def watch(name: str, session: AsyncSession) -> None:
    async for event in session.stream(CODE):
        if event.type == "output":
            print(f"{name}: {event.text}", end="")
        elif event.type == "outcome":
            print(f"{name}: {event.status} after {event.durations.total_us / 1e6:.1f} s")


async def main() -> None:
    async with AsyncBelljar() as belljar:
        session = await belljar.session()
        left, right = await session.fork(2)
        await asyncio.gather(watch("left", left), watch("right", right))


if __name__ == "__main__":
    asyncio.run(main())

"""The client that is awaited: the same as the other, of which `_sync.py` is made."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from pathlib import Path

import pytest

import belljar
from belljar import AsyncBelljar, Event, NotFound
from conftest import Service, Wire
from test_sessions import SLEEP


def test_both_have_the_same_surface() -> None:
    for name in ("Belljar", "Session", "Files", "Events", "Run", "Commands", "Command"):
        one, other = getattr(belljar, name), getattr(belljar, f"Async{name}")
        public = [public for public in vars(one) if not public.startswith("_")]
        assert public == [public for public in vars(other) if not public.startswith("_")]
        for method in public:
            ours, theirs = getattr(one, method), getattr(other, method)
            if not callable(ours):
                continue
            assert not inspect.iscoroutinefunction(ours)
            assert str(inspect.signature(ours)) == re.sub("Async", "", str(inspect.signature(theirs)))
            assert (ours.__doc__ or "").replace("`async with`", "`with`") == (theirs.__doc__ or "").replace(
                "`async with`", "`with`"
            )


def test_awaited(service: Service, tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncBelljar(service.url, service.key) as client:
            session = await client.session()
            told: list[str] = []

            async def watch(event: Event) -> None:
                await asyncio.sleep(0)
                told.append(event.type)

            outcome = await session.run("print(1)\n2", stream=watch)
            assert (outcome.stdout, outcome.value) == ("1\n", "2")
            assert told == ["started", "output", "display", "outcome"]
            async with session.stream("print('x')") as events:
                assert [event.type async for event in events] == ["started", "output", "outcome"]
            (tmp_path / "local").write_bytes(b"abc")
            await session.files.put("there", tmp_path / "local")
            await session.files.save("there", tmp_path / "back")
            assert (tmp_path / "back").read_bytes() == b"abc"
            await session.checkpoint("c")
            await session.run("x = 1")
            await session.restore("c")
            assert [name.name for name in await session.manifest()] == []
            await session.snapshot(tmp_path / "snapshot")
            async with await client.session_from_snapshot(tmp_path / "snapshot") as other:
                assert (await other.files.get("there")) == b"abc"
            forks = await session.fork(3)
            outcomes = await asyncio.gather(*(fork.run(f"{n} + 1") for n, fork in enumerate(forks)))
            assert [outcome.value for outcome in outcomes] == ["1", "2", "3"]
            ids = {view.id async for view in client.sessions()}
            assert ids == {session.id, *(fork.id for fork in forks)}
        async with AsyncBelljar(service.url, service.key) as client:
            assert [view async for view in client.sessions()] == []
            with pytest.raises(NotFound):
                await client.attach(session.id)

    asyncio.run(main())


def test_a_task_that_is_cancelled_interrupts_its_cell(service: Service) -> None:
    async def main() -> None:
        async with AsyncBelljar(service.url, service.key) as client, await client.session() as session:
            begun = asyncio.Event()

            def watch(event: Event) -> None:
                if event.type == "output":
                    begun.set()

            task = asyncio.create_task(session.run(SLEEP, stream=watch))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            before = time.monotonic()
            assert (await session.run("1")).value == "1"
            assert time.monotonic() - before < 20

    asyncio.run(main())


def test_a_cut_stream_goes_on(service: Service, wire: Wire) -> None:
    async def main() -> None:
        async with AsyncBelljar(service.url, service.key) as direct:
            kept = await direct.session()
            wire.plan = lambda number: 1300 if 0 < number < 6 else None
            async with AsyncBelljar(wire.url, service.key) as client:
                session = await client.attach(kept.id)
                await client._http.aclose()
                client._http = AsyncBelljar(wire.url, service.key)._http
                code = "for n in range(300): print(n, flush=True); __import__('time').sleep(0.003)"
                text = [event.text async for event in session.stream(code) if event.type == "output"]
            assert "".join(text) == "".join(f"{n}\n" for n in range(300))
            assert wire.connections > 5

    asyncio.run(main())

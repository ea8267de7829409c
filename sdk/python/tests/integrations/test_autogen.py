"""AutoGen: code blocks of agents in a session."""

from __future__ import annotations

import asyncio

import pytest
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult

from belljar import AsyncBelljar
from belljar.integrations.autogen import BelljarCodeExecutor
from conftest import Service


async def run(executor: BelljarCodeExecutor, *blocks: tuple[str, str]) -> CodeResult:
    given = [CodeBlock(code=code, language=language) for language, code in blocks]
    return await executor.execute_code_blocks(given, CancellationToken())


async def test_blocks(service: Service, aclient: AsyncBelljar) -> None:
    executor = BelljarCodeExecutor(service.url, service.key, timeout=2)
    with pytest.raises(ValueError, match="not started"):
        await run(executor, ("python", "1"))
    async with executor:
        await executor.start()
        assert len([session async for session in aclient.sessions()]) == 1
        ran = await run(executor, ("python", "x = 6"), ("sh", "echo one; echo two >&2"), ("py", "print('x')\nx * 7"))
        assert (ran.exit_code, ran.output) == (0, "one\ntwo\nx\n42\n")
        ran = await run(executor, ("python", "1 / 0"), ("sh", "echo never"))
        assert ran.exit_code == 1 and "ZeroDivisionError" in ran.output and "never" not in ran.output
        assert (await run(executor, ("bash", "exit 3"))).exit_code == 3
        for block in (("python", "while True: pass"), ("sh", "sleep 60")):
            assert (await run(executor, block)).exit_code == 124
        loud = await run(executor, ("sh", "head -c 700000 /dev/zero"))
        assert loud.output.startswith("[belljar: ") and len(loud.output) < 600_000
        with pytest.raises(ValueError, match="javascript"):
            await run(executor, ("sh", "touch never"), ("javascript", "1"))
        assert (await run(executor, ("sh", "test -e never"))).exit_code == 1
        await executor.restart()
        assert "NameError" in (await run(executor, ("python", "x"))).output
        assert len([session async for session in aclient.sessions()]) == 1
    assert [session async for session in aclient.sessions()] == []


async def test_a_cancelled_block(service: Service) -> None:
    async with BelljarCodeExecutor(service.url, service.key) as executor:
        assert executor._session is not None
        for code, language in (("import time\nwhile True: time.sleep(0.1)", "python"), ("sleep 1000", "sh")):
            token = CancellationToken()
            task = asyncio.create_task(executor.execute_code_blocks([CodeBlock(code, language)], token))
            while not (await executor._session.info()).busy and not await executor._session.commands.list():
                assert not task.done(), task
                await asyncio.sleep(0.05)
            token.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        # It was interrupted, and is not in the way.
        assert (await run(executor, ("python", "6 * 7"))).output == "42\n"


async def test_a_stored_component(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = BelljarCodeExecutor(service.url, service.key, timeout=5, options={"packages": []})
    stored = executor.dump_component()
    assert service.key not in stored.model_dump_json()
    monkeypatch.setenv("BELLJAR_API_KEY", service.key)
    loaded = CodeExecutor.load_component(stored)
    assert isinstance(loaded, BelljarCodeExecutor)
    async with loaded:
        assert (await run(loaded, ("python", "6 * 7"))).output == "42\n"
    with pytest.raises(ValueError, match="secrets"):
        BelljarCodeExecutor(options={"secrets": {"KEY": "value"}}).dump_component()

"""Commands in sessions, against the real service."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

import pytest

from belljar import AsyncBelljar, Belljar, BelljarError, NotFound, Session, Unreachable
from conftest import Service, Wire, another_connection


def running(session: Session) -> list[int]:
    return [command.pid for command in session.commands.list() if command.state == "running"]


def until_idle(session: Session) -> None:
    deadline = time.monotonic() + 20
    while running(session):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_command(session: Session) -> None:
    session.run("import os; os.mkdir('below')")
    line = "pwd; cat; echo $NAME >&2; exit 3"
    result = session.commands.run(line, directory="below", variables={"NAME": "value"}, input="in\n")
    assert (result.exit_code, result.stdout, result.stderr) == (3, "/workspace/below\nin\n", "value\n")
    assert (result.ok, result.signal, result.timed_out, result.omitted_bytes) == (False, None, False, 0)
    assert session.commands.run(["printf", "%s", "a b"]).stdout == "a b"
    assert session.commands.run("kill -TERM $$").signal == "SIGTERM"
    assert session.commands.run("sleep 60", timeout=0.2).timed_out
    assert session.commands.run("head -c 600000 /dev/zero").omitted_bytes == 600000 - (512 << 10)
    with pytest.raises(BelljarError) as refused:
        session.commands.run(["no-such-program"])
    assert refused.value.code == "command_not_started" and "no-such-program" in str(refused.value)


def test_in_the_background(client: Belljar, session: Session) -> None:
    command = session.commands.start("cat; echo end >&2; exit 2")
    command.send("one ")
    command.send(b"two")
    other = client.attach(session.id).commands.attach(command.pid)
    events = other.output()
    text = ""
    while text != "one two":
        event = next(events)
        assert (event.type, event.stream) == ("output", "stdout")
        text += event.text or ""
        position = event.next
    events.close()
    command.close_input()
    assert [(event.stream, event.text) for event in other.output(position or 0)] == [("stderr", "end\n")]
    assert "".join(event.text or "" for event in command) == "one twoend\n"
    for handle in (command, other):
        result = handle.wait()
        assert (result.exit_code, result.stdout, result.stderr) == (2, "one two", "end\n")
    assert [view.pid for view in session.commands.list()] == [command.pid]
    with pytest.raises(BelljarError) as refused:
        command.send("late")
    assert refused.value.code == "command_refused"
    with pytest.raises(NotFound):
        session.commands.attach(1)


def test_signals_and_terminals(session: Session) -> None:
    shell = session.commands.start(["/bin/sh"], terminal=(30, 100))
    shell.send("stty size\n")
    text = ""
    for event in shell:
        # A terminal's output comes in any pieces.
        text += event.text or ""
        if "30 100\r\n" in text:
            break
    shell.resize(10, 40)
    shell.send("stty size; exit 5\n")
    result = shell.wait()
    assert result.exit_code == 5 and "10 40\r\n" in result.terminal and result.stdout == ""
    sleeper = session.commands.start(["sleep", "1000"])
    sleeper.signal("SIGINT")
    assert sleeper.wait().signal == "SIGINT"
    sleeper.kill()
    sleeper = session.commands.start(["sleep", "1000"])
    sleeper.kill()
    assert sleeper.wait().signal == "SIGKILL"
    sleeper = session.commands.start(["sleep", "1000"])
    session.hibernate()
    with pytest.raises(NotFound):
        sleeper.signal("SIGINT")
    result = sleeper.wait()
    assert result.exit_code is None and "hibernated" in (result.lost_because or "")


def test_who_stops_waiting_kills_the_command(session: Session) -> None:
    def press() -> None:
        while not running(session):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        session.commands.run("sleep 1000")
    presser.join()
    until_idle(session)


def test_a_cut_connection(service: Service, session: Session, wire: Wire) -> None:
    with Belljar(wire.url, service.key) as client:
        there = client.attach(session.id)
        command = there.commands.start("for n in $(seq 300); do echo $n; sleep 0.003; done")
        begun = wire.connections
        wire.plan = lambda number: 1300 if number < begun + 3 else None
        another_connection(client)
        text = [event.text or "" for event in command]
        assert "".join(text) == "".join(f"{n}\n" for n in range(1, 301))
        assert wire.connections > begun + 2
        # What a client waits for is not run again.
        wire.plan = lambda _: 0
        another_connection(client)
        with pytest.raises(Unreachable):
            there.commands.run("echo run >> runs")
    until_idle(session)
    assert session.files.get("runs") == b"run\n"


def test_awaited(service: Service) -> None:
    async def main() -> None:
        async with AsyncBelljar(service.url, service.key) as client, await client.session() as session:
            result = await session.commands.run("cat", input="hello")
            assert (result.ok, result.stdout) == (True, "hello")
            command = await session.commands.start("echo first; cat")
            await command.send("second")
            await command.close_input()
            text = [event.text or "" async for event in command]
            assert "".join(text) == "first\nsecond"
            assert (await command.wait()).ok
            again = await session.commands.attach(command.pid)
            assert (await again.info()).state == "ended"
            task = asyncio.create_task(session.commands.run("sleep 1000"))
            while len(await session.commands.list()) < 3:
                await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while (await session.commands.list())[-1].state == "running":
                await asyncio.sleep(0.05)

    asyncio.run(main())

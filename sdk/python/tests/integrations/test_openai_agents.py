"""OpenAI Agents: sandbox agents in sessions, with the SDK's own scripted model."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from agents import RunConfig, Runner
from agents.run_config import SandboxRunConfig
from agents.sandbox import Manifest, SandboxAgent
from agents.sandbox.entries import File
from agents.sandbox.errors import (
    ConfigurationError,
    ExecTimeoutError,
    ExecTransportError,
    InvalidManifestPathError,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    WorkspaceReadNotFoundError,
)
from agents.sandbox.snapshot import LocalSnapshotSpec
from agents.testing import ScriptedModel, assistant_message, function_call

from belljar import AsyncBelljar
from belljar.integrations.openai_agents import BelljarSandboxClient, BelljarSandboxSession


async def alive(client: AsyncBelljar) -> list[str]:
    return [session.id async for session in client.sessions()]


async def test_an_agent(aclient: AsyncBelljar) -> None:
    model = ScriptedModel(
        [
            [function_call("exec_command", {"cmd": "cat task.txt > copy.txt; wc -w < copy.txt"}, call_id="1")],
            [function_call("exec_command", {"cmd": "cat copy.txt; exit 3"}, call_id="2")],
            [assistant_message("Two words.")],
        ]
    )
    manifest = Manifest(entries={"task.txt": File(content=b"two words")})
    agent = SandboxAgent(name="reader", model=model, default_manifest=manifest)
    config = RunConfig(sandbox=SandboxRunConfig(client=BelljarSandboxClient(aclient)), tracing_disabled=True)
    result = await Runner.run(agent, "How many words?", run_config=config)
    assert result.final_output == "Two words."
    told = str(model.calls[-1])
    assert "two words" in told and "exited with code 3" in told
    # Who started the sandbox was the run; it has ended it.
    assert await alive(aclient) == []


async def test_a_session(aclient: AsyncBelljar) -> None:
    client = BelljarSandboxClient(aclient)
    session = await client.create(manifest=Manifest(environment={"value": {"NAME": "given"}}))
    async with session:
        ran = await session.exec("pwd; echo $NAME; echo told >&2; exit 3")
        assert (ran.exit_code, ran.stdout, ran.stderr) == (3, b"/workspace\ngiven\n", b"told\n")
        assert (await session.exec("no-such-program", shell=False)).exit_code == 127
        loud = await session.exec("head -c 700000 /dev/zero")
        assert loud.stdout.startswith(b"[belljar: ") and len(loud.stdout) < 600_000
        with pytest.raises(ExecTimeoutError):
            await session.exec("sleep 60", timeout=0.5)
        await session.write(Path("a/b.bin"), io.BytesIO(b"\0\xff"))
        assert (await session.read(Path("/workspace/a/b.bin"))).read() == b"\0\xff"
        assert [entry.path for entry in await session.ls("a") if entry.path.endswith("b.bin")] == ["/workspace/a/b.bin"]
        with pytest.raises(WorkspaceReadNotFoundError):
            await session.read(Path("absent"))
        await session.exec("ln -s /etc/passwd link; mkdir directory")
        for path in ("link", "directory"):
            with pytest.raises(WorkspaceArchiveReadError):
                await session.read(Path(path))
            with pytest.raises(WorkspaceArchiveWriteError):
                await session.write(Path(path), io.BytesIO(b""))
        for path in ("/etc/passwd", "../etc/passwd"):
            with pytest.raises(InvalidManifestPathError):
                await session.read(Path(path))
        with pytest.raises(ConfigurationError, match="one user"):
            await session.exec("true", user="root")
        assert await session.running()
        assert len(await alive(aclient)) == 1
    assert not await session.running() and await alive(aclient) == []
    with pytest.raises(ExecTransportError):
        await session.exec("true")
    for manifest in (Manifest(root="/srv"), Manifest(users=[{"name": "other"}])):
        with pytest.raises(ConfigurationError):
            await client.create(manifest=manifest)


async def test_files_survive_in_a_snapshot(aclient: AsyncBelljar, tmp_path: Path) -> None:
    client = BelljarSandboxClient(aclient)
    entries = {"passing.txt": File(content=b"given again", ephemeral=True)}
    session = await client.create(snapshot=LocalSnapshotSpec(base_path=tmp_path), manifest=Manifest(entries=entries))
    async with session:
        await session.exec("mkdir d; echo kept > d/file; echo changed > passing.txt; ln -s d/file link")
        inner = session._inner
        assert isinstance(inner, BelljarSandboxSession)
        with await inner.persist_workspace() as saved, tarfile.open(fileobj=saved) as archive:
            assert sorted(archive.getnames()) == ["d", "d/file"]
        stored = client.serialize_session_state(session.state)
        # While it lives, its state leads to the same session.
        again = await client.resume(client.deserialize_session_state(dict(stored)))
        await again.start()
        assert (await again.exec("cat link")).stdout == b"kept\n"
    assert aclient._access.key not in str(stored)
    resumed = await client.resume(client.deserialize_session_state(dict(stored)))
    async with resumed:
        assert (await resumed.exec("cat d/file passing.txt")).stdout == b"kept\ngiven again"
    hostile = io.BytesIO()
    with tarfile.open(fileobj=hostile, mode="w") as writer:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        writer.addfile(link)
    hostile.seek(0)
    async with await client.create() as other:
        with pytest.raises(WorkspaceArchiveWriteError):
            await other._inner.hydrate_workspace(hostile)

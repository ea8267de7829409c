"""Pydantic AI: its own suite for backends, and what that does not ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from pydantic_ai.workspaces import (
    Workspace,
    WorkspaceBackend,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

from belljar import AsyncBelljar, BelljarError
from belljar.integrations.pydantic_ai import BelljarWorkspaceBackend
from conftest import Service


class TestSuite(WorkspaceBackendSuite):
    @pytest.fixture
    def backend(self, aclient: AsyncBelljar) -> WorkspaceBackend:
        return BelljarWorkspaceBackend(aclient)

    @pytest.fixture
    def fresh_backend(self, aclient: AsyncBelljar) -> Callable[[], WorkspaceBackend]:
        return lambda: BelljarWorkspaceBackend(aclient)

    @pytest.fixture
    def attach_backend(self, aclient: AsyncBelljar) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return lambda ref: BelljarWorkspaceBackend(aclient, ref=ref)

    @pytest.fixture
    def destroy_environment(self, aclient: AsyncBelljar) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        async def destroy(backend: WorkspaceBackend) -> None:
            assert backend.ref is not None
            await (await aclient.attach(backend.ref.id)).close()

        return destroy


async def test_what_the_suite_does_not_ask_for(aclient: AsyncBelljar) -> None:
    backend = BelljarWorkspaceBackend(aclient)
    with pytest.raises(WorkspaceTimeoutError) as late:
        await backend.run("echo begun; sleep 60", shell=True, timeout=0.5)
    assert late.value.stdout == "begun\n"
    with pytest.raises(WorkspaceOutputLimitError) as loud:
        await backend.run(["head", "-c", "700000", "/dev/zero"])
    assert loud.value.limit == len(loud.value.stdout)
    assert (await backend.run("kill -9 $$", shell=True)).exit_code == 137
    session = await backend.session()
    assert backend.ref == WorkspaceRef(provider="belljar", id=session.id)
    with pytest.raises(ValueError, match="docker"):
        BelljarWorkspaceBackend(aclient, ref=WorkspaceRef(provider="docker", id="1"))


async def test_who_ends_the_session(service: Service, aclient: AsyncBelljar) -> None:
    """A run does not; the client that started it does, unless it is kept; one that attached never does."""
    async with AsyncBelljar(service.url, service.key) as client:
        ended, kept = BelljarWorkspaceBackend(client), BelljarWorkspaceBackend(client)
        await Workspace(ended).write_bytes("file", b"1")
        (await kept.session()).keep()
    assert ended.ref is not None and kept.ref is not None
    with pytest.raises(WorkspaceUnavailableError):
        await BelljarWorkspaceBackend(aclient, ref=ended.ref).working_dir()
    async with AsyncBelljar(service.url, service.key) as client:
        await BelljarWorkspaceBackend(client, ref=kept.ref).working_dir()
    await (await BelljarWorkspaceBackend(aclient, ref=kept.ref).session()).close()


async def test_a_start_that_fails_is_tried_again(aclient: AsyncBelljar) -> None:
    backend = BelljarWorkspaceBackend(aclient, options={"environment": "no-such"})
    for _ in range(2):
        with pytest.raises(BelljarError) as refused:
            await backend.run(["true"])
        assert refused.value.code == "environment_not_offered" and backend.ref is None
    del backend._options["environment"]
    assert (await backend.run(["true"])).exit_code == 0

"""The service is that of the other tests. `.ci/frameworks` has pytest-asyncio run asynchronous tests and fixtures."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from belljar import AsyncBelljar
from conftest import Service


@pytest.fixture
async def aclient(service: Service) -> AsyncIterator[AsyncBelljar]:
    async with AsyncBelljar(service.url, service.key) as client:
        yield client

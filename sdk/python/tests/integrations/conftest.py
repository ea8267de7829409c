"""The service is that of the other tests. `.ci/frameworks` has pytest-asyncio run asynchronous tests and fixtures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator

import pytest

from belljar import AsyncBelljar
from conftest import Service


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The suites of frameworks skip what they can't test. Here they can test everything."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped: {report.longrepr}"
    return report


@pytest.fixture
async def aclient(service: Service) -> AsyncIterator[AsyncBelljar]:
    async with AsyncBelljar(service.url, service.key) as client:
        yield client

"""AutoGen: the code blocks of agents run in a session.

    async with BelljarCodeExecutor() as executor:
        tool = PythonCodeExecutionTool(executor)

Python blocks are cells, so their variables stay; shell blocks are commands.
"""

from __future__ import annotations

import asyncio

from pydantic import BaseModel
from typing_extensions import Self

from .. import AsyncBelljar, AsyncSession, Isolation
from ._common import TIMED_OUT, SessionOptions, cell_time, exit_code, missing, omission

try:
    from autogen_core import CancellationToken, Component
    from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
except ImportError as error:
    raise missing("autogen", error) from error

__all__ = ["BelljarCodeExecutor", "BelljarCodeExecutorConfig"]

_PYTHON = ("python", "py", "python3", "")
_SHELL = ("bash", "shell", "sh")


class BelljarCodeExecutorConfig(BaseModel):
    """What a stored component says. It has no key: `BELLJAR_API_KEY` does."""

    url: str | None = None
    timeout: float = 60
    packages: list[str] | None = None
    environment: str | None = None
    isolation: Isolation | None = None


class BelljarCodeExecutor(CodeExecutor, Component[BelljarCodeExecutorConfig]):
    """Runs code blocks in a session, which `start` starts and `stop` ends. `restart` starts another.

    `timeout` is the time limit of a block in seconds; that of the session holds for Python blocks, too. A block that exceeds
    it ends with exit code 124. The first block that fails is the last one.
    """

    component_config_schema = BelljarCodeExecutorConfig
    component_provider_override = "belljar.integrations.autogen.BelljarCodeExecutor"

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 60,
        options: SessionOptions | None = None,
    ) -> None:
        self._url = url
        self._key = api_key
        self._timeout = timeout
        self._options = options or SessionOptions()
        self._client: AsyncBelljar | None = None
        self._session: AsyncSession | None = None

    async def start(self) -> None:
        if self._session is None:
            client = AsyncBelljar(self._url, self._key)
            try:
                self._session = await client.session(**self._options)
            except BaseException:
                await client.close()
                raise
            self._client = client

    async def stop(self) -> None:
        client, self._client, self._session = self._client, None, None
        if client is not None:
            await client.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        """Runs the blocks in order. A cancelled token interrupts the running one and raises `CancelledError`."""
        if self._session is None:
            raise ValueError("the executor is not started: await start(), or use `async with`")
        for block in code_blocks:
            if block.language.lower() not in _PYTHON + _SHELL:
                raise ValueError(
                    f"blocks of {block.language!r} cannot run: only of {', '.join(filter(None, _PYTHON + _SHELL))}"
                )
        result = CodeResult(exit_code=0, output="")
        for block in code_blocks:
            running = asyncio.ensure_future(self._run(self._session, block))
            cancellation_token.link_future(running)
            code, output = await running
            result = CodeResult(exit_code=code, output=result.output + output)
            if code != 0:
                break
        return result

    async def _run(self, session: AsyncSession, block: CodeBlock) -> tuple[int, str]:
        if block.language.lower() in _PYTHON:
            outcome = await session.run(block.code, wall_time=cell_time(session.limits, self._timeout))
            late = outcome.cause.kind in ("wall_time", "cpu_time")
            text = str(outcome)
            return 0 if outcome.ok else TIMED_OUT if late else 1, f"{text}\n" if text else ""
        # One stream keeps the order of both.
        ended = await session.commands.run(f"exec 2>&1\n{block.code}", timeout=self._timeout)
        code = exit_code(ended)
        note = f"\n[belljar: killed after {self._timeout:g} s]" if ended.timed_out else ended.lost_because or ""
        return 1 if code is None else code, omission(ended) + ended.stdout + note

    def _to_config(self) -> BelljarCodeExecutorConfig:
        unknown = set(self._options) - {"packages", "environment", "isolation"}
        if unknown:
            # Variables and secrets among them must not be in a stored configuration.
            raise ValueError(f"a stored component cannot have the session options {', '.join(sorted(unknown))}")
        return BelljarCodeExecutorConfig(
            url=self._url,
            timeout=self._timeout,
            packages=self._options.get("packages"),
            environment=self._options.get("environment"),
            isolation=self._options.get("isolation"),
        )

    @classmethod
    def _from_config(cls, config: BelljarCodeExecutorConfig) -> Self:
        options = SessionOptions()
        if config.packages is not None:
            options["packages"] = config.packages
        if config.environment is not None:
            options["environment"] = config.environment
        if config.isolation is not None:
            options["isolation"] = config.isolation
        return cls(config.url, timeout=config.timeout, options=options)

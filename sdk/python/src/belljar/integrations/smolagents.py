"""smolagents: a `CodeAgent` whose code runs in a session.

    with Belljar() as b, b.session() as session:
        agent = CodeAgent(tools=[], model=model, executor=BelljarExecutor(session))
        agent.run("What is the 100th prime?")

Tools are sent as source, as smolagents does for all its remote executors: they run in the session, not here.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .. import CellFailed, Outcome, Session
from ._common import cell_time, missing

try:
    from smolagents.local_python_executor import CodeOutput
    from smolagents.monitoring import AgentLogger, LogLevel
    from smolagents.remote_executors import RemotePythonExecutor
    from smolagents.tools import Tool
    from smolagents.utils import AgentError
except ImportError as error:
    raise missing("smolagents", error) from error

__all__ = ["BelljarExecutor"]

_ANSWER = "/tmp/.belljar-final-answer"
_LONGEST_ANSWER = 16 << 20
# An outcome cuts the text of an exception at 16 KiB. An answer may be longer, so it is written to a file.
_KEEP_ANSWER = f"""
def _keep_answer(tool):
    def final_answer(*args, **kwargs):
        try:
            return tool(*args, **kwargs)
        except BaseException as error:
            if type(error).__name__ == "FinalAnswerException":
                with open({_ANSWER!r}, "w", encoding="utf-8") as file:
                    file.write(error.value)
            raise
    return final_answer
final_answer = _keep_answer(final_answer)
del _keep_answer
"""


class BelljarExecutor(RemotePythonExecutor):  # type: ignore[misc, unused-ignore]
    """Runs the code of a `CodeAgent` in a session. Variables stay between steps.

    `wall_time` is the time limit of a step in seconds, at most that of the session. `agent.cleanup()` ends the session.
    Answers and variables are JSON; nothing is ever unpickled, since the code of the session wrote it.
    """

    def __init__(self, session: Session, *, wall_time: float | None = None, logger: AgentLogger | None = None) -> None:
        super().__init__([], logger or AgentLogger(level=LogLevel.ERROR), allow_pickle=False)
        self.session = session
        self.wall_time = wall_time

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        """Runs a step. Exceptions, timeouts and crashes are an `AgentError`, which the model reads."""
        outcome = self.session.run(code, wall_time=cell_time(self.session.limits, self.wall_time))
        logs = outcome.safe(outcome.transcript)
        if outcome.exception is not None and outcome.exception.name == self.FINAL_ANSWER_EXCEPTION:
            return CodeOutput(output=self._answer(), logs=logs, is_final_answer=True)
        if not outcome.ok:
            raise AgentError(f"{logs}\n{CellFailed(outcome)}".strip(), self.logger)
        return CodeOutput(output=_value(outcome), logs=logs, is_final_answer=False)

    def send_tools(self, tools: dict[str, Tool]) -> None:
        super().send_tools(tools)
        if "final_answer" in tools:
            self.run_code_raise_errors(_KEEP_ANSWER)

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Installs what tools need, if the session's policy allows it. What its environment has is there."""
        if additional_imports:
            self.run_code_raise_errors(f"# requires: {', '.join(sorted(additional_imports))}\n")
        return additional_imports

    def cleanup(self) -> None:
        """Ends the session."""
        self.session.close()

    def _answer(self) -> Any:
        files = self.session.files
        try:
            if files.stat(_ANSWER).size > _LONGEST_ANSWER:
                raise AgentError(f"The final answer is longer than {_LONGEST_ANSWER} bytes.", self.logger)
            text = files.get(_ANSWER).decode(errors="replace")
            files.delete(_ANSWER)
            json.loads(text.removeprefix("safe:"), object_hook=_check)
            return self._deserialize_final_answer(text)
        except AgentError:
            raise
        except Exception as error:
            # The code of the session wrote that file: there is no end to what can be wrong with it.
            raise AgentError(f"The final answer cannot be read: {error}", self.logger) from error


def _check(found: dict[str, Any]) -> dict[str, Any]:
    """Refuses arrays whose elements are larger than their text: smolagents would reserve memory for any size."""
    kind = found.get("dtype")
    if found.get("__type__") == "ndarray" and not re.fullmatch(r"bool|(u?int|float|complex)[0-9]{1,3}", str(kind)):
        raise ValueError(f"an array of `{kind!s:.40}` can't be an answer; use `tolist()`")
    return found


def _value(outcome: Outcome) -> str | None:
    shown = [display.text for display in outcome.displays if display.value]
    return None if not shown or shown[-1] is None else outcome.safe(shown[-1])

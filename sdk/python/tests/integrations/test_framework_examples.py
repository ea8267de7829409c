"""The examples with frameworks, as a newcomer would run them, and the lines of docs/frameworks.md, which are theirs."""

from __future__ import annotations

import re
import runpy
from importlib.metadata import metadata

import pytest

from conftest import Service
from test_examples import DOCS, EXAMPLES

PRINTED = {
    "smolagents": "285\n",
    "deepagents": "It is 285.\nprint(sum(n * n for n in range(10)))\n",
    "pydantic_ai": "The shell says 285\n",
    "openai_agents": "It is 285.\n",
    "google_adk": "outcome=<Outcome.OUTCOME_OK",
    "autogen": "285\n",
}
INTEGRATIONS = EXAMPLES.parent / "src" / "belljar" / "integrations"


# AutoGen warns that nobody approves code; in a session, nobody has to.
@pytest.mark.filterwarnings("ignore:No approval function set:UserWarning")
@pytest.mark.parametrize("name", PRINTED)
def test_example(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """In this process: to import a framework takes seconds."""
    monkeypatch.setenv("BELLJAR_URL", service.url)
    monkeypatch.setenv("BELLJAR_API_KEY", service.key)
    runpy.run_path(str(EXAMPLES / f"with_{name}.py"), run_name="__main__")
    assert PRINTED[name] in capsys.readouterr().out


def test_all_adapters_have_an_example_an_extra_and_a_section() -> None:
    names = {path.stem for path in INTEGRATIONS.glob("*.py") if not path.stem.startswith("_")}
    assert names == set(PRINTED)
    assert {path.stem.removeprefix("with_") for path in EXAMPLES.glob("with_*.py")} == names
    assert {extra.replace("-", "_") for extra in metadata("belljar").get_all("Provides-Extra") or []} == names
    assert {name for name, _ in blocks()} == names


def blocks() -> list[tuple[str, str]]:
    """The adapter and the code of each block of the page."""
    found = re.findall(r"```python\n(.*?)```", (DOCS / "frameworks.md").read_text(), re.DOTALL)
    return [(re.search(r"belljar\.integrations\.(\w+)", code)[1], code) for code in found]  # type: ignore[index]


@pytest.mark.parametrize(("name", "code"), blocks(), ids=[name for name, _ in blocks()])
def test_lines_of_the_page(name: str, code: str) -> None:
    lines = iter([line.strip() for line in (EXAMPLES / f"with_{name}.py").read_text().splitlines()])
    for line in filter(None, map(str.strip, code.splitlines())):
        assert line in lines, f"not in this order in with_{name}.py: {line}"

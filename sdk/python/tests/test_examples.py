"""The examples, the pages docs/sdk.md and docs/commands.md and the tutorials, as a newcomer would run them. Models are stand-ins with a script: the
packages `openai` and `anthropic` are not needed, and not tested."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from belljar import Session
from conftest import Service

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(program: Path, service: Service, directory: Path) -> str:
    variables = {**os.environ, "BELLJAR_URL": service.url, "BELLJAR_API_KEY": service.key}
    ended = subprocess.run(
        [sys.executable, program], cwd=directory, env=variables, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_openai(session: Session) -> None:
    asked: list[Any] = []

    def call(id: str, arguments: str) -> Any:
        function = SimpleNamespace(name="run_python", arguments=arguments)
        return SimpleNamespace(id=id, function=function)

    script = [
        [call("1", json.dumps({"code": "x = 6"})), call("2", json.dumps({"code": "1 / 0"})), call("3", "{")],
        [call("4", json.dumps({"code": "x * 7"}))],
        None,
    ]

    def create(**request: Any) -> Any:
        asked.append([*request["messages"]])
        assert request["tools"][0]["function"]["name"] == "run_python"
        calls = script[len(asked) - 1]
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="42", tool_calls=calls))])

    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    assert example("tool_openai").answer(client, session, "?") == "42"
    first, second, third = asked[1][2:]
    assert (first["tool_call_id"], first["content"]) == ("1", "(nothing was printed)")
    assert "ZeroDivisionError" in second["content"] and "not of the form" in third["content"]
    assert asked[2][-1] == {"role": "tool", "tool_call_id": "4", "content": "42"}


def test_anthropic(session: Session) -> None:
    asked: list[Any] = []
    figure = "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()"
    script = [{"code": figure}, {"code": "1 / 0"}, {"wrong": 1}, None]

    def create(**request: Any) -> Any:
        asked.append([*request["messages"]])
        assert request["tools"][0]["name"] == "run_python"
        given = script[len(asked) - 1]
        if given is None:
            return SimpleNamespace(stop_reason="end_turn", content=[SimpleNamespace(type="text", text="done")])
        use = SimpleNamespace(type="tool_use", id=f"use-{len(asked)}", name="run_python", input=given)
        return SimpleNamespace(stop_reason="tool_use", content=[use])

    client = SimpleNamespace(messages=SimpleNamespace(create=create))
    assert example("tool_anthropic").answer(client, session, "?") == "done"
    drawn, failed, wrong = (asked[at][-1]["content"][0] for at in (1, 2, 3))
    assert (drawn["tool_use_id"], drawn["is_error"]) == ("use-1", False)
    assert [block["type"] for block in drawn["content"]] == ["text", "image"]
    assert failed["is_error"] and "ZeroDivisionError" in failed["content"][0]["text"]
    assert wrong["is_error"]


def test_data_analysis(service: Service, tmp_path: Path) -> None:
    assert "Oslo       8" in run(EXAMPLES / "data_analysis.py", service, tmp_path)
    assert (tmp_path / "totals.csv").read_text() == "city,amount\nOslo,8\nRome,5\n"
    assert (tmp_path / "totals.png").read_bytes().startswith(b"\x89PNG")


def test_streaming(service: Service, tmp_path: Path) -> None:
    told = run(EXAMPLES / "streaming.py", service, tmp_path)
    for name in ("left", "right"):
        assert [line for line in told.splitlines() if line.startswith(f"{name}: step")] == [
            f"{name}: step {step}" for step in range(3)
        ]
        assert f"{name}: success" in told


DOCS = ROOT.parent.parent / "docs"
PAGES = [
    ROOT / "README.md",
    *(
        DOCS / f"{name}.md"
        for name in ("sdk", "side-by-side", "commands", "ports", "tutorial-team-service", "tutorial-embedding")
    ),
]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_pages(service: Service, tmp_path: Path, page: Path) -> None:
    """Each `python` block runs by itself, and prints the `text` block that follows it."""
    blocks = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", page.read_text(), re.DOTALL)
    assert blocks
    for code, expected in blocks:
        (tmp_path / "block.py").write_text(code)
        told = run(tmp_path / "block.py", service, tmp_path)
        if expected:
            assert told == expected, code

"""What is made from something else is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import generate  # noqa: E402


def test_nothing_has_drifted() -> None:
    for path, text in generate.made().items():
        assert path.read_text() == text, f"{path.name} is not up to date: run generate.py"


def test_drift_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    changed = tmp_path / "openapi.json"
    changed.write_text(generate.OPENAPI.read_text().replace('"peak_memory_bytes"', '"peak_bytes"'))
    monkeypatch.setattr(generate, "OPENAPI", changed)
    with pytest.raises(AssertionError, match="models.py"):
        test_nothing_has_drifted()

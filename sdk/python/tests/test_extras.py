"""Adapters without their frameworks: here, none of them is installed. `.ci/frameworks` tests those that are."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.metadata import metadata

import pytest

EXTRAS = metadata("belljar").get_all("Provides-Extra") or []


def test_there_are_extras() -> None:
    assert len(EXTRAS) == 6


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_missing_framework(extra: str) -> None:
    module = f"belljar.integrations.{extra.replace('-', '_')}"
    with pytest.raises(ImportError) as missing:
        importlib.import_module(module)
    assert f"pip install 'belljar[{extra}]'" in str(missing.value)


def test_nothing_is_imported_without_being_asked_for() -> None:
    code = "import belljar, belljar.integrations, sys; print([name for name in sys.modules if 'integrations.' in name])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"

"""`shipper bench RESULT.json`: a kept result in a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from in_process import Command

_RESULTS = sorted(Path(__file__).parents[2].glob("bench/results/*"))


def test_only_results_are_kept() -> None:
    assert {path.suffix for path in _RESULTS} == {".json"}


@pytest.mark.parametrize("kept", _RESULTS, ids=lambda path: path.stem)
def test_a_kept_result_is_shown(kept: Path, shipper: Command) -> None:
    done = shipper("bench", str(kept))
    assert done.returncode == 0, done.stderr
    for summary in json.loads(kept.read_text())["summaries"]:
        assert summary["contender"]["name"].partition("'")[0] in done.stdout


def test_a_kept_result_is_not_measured_again(shipper: Command) -> None:
    assert "[SHIP-102]" in shipper("bench", str(_RESULTS[0]), "--rounds", "3").stderr

"""`shipper bench RESULT.json`: a kept result in a terminal, and on a page if one is asked for."""

import json
import re
from pathlib import Path

import pytest

_RESULTS = sorted(Path(__file__).parents[2].glob("bench/results/*"))


def test_only_results_are_kept():
    assert {path.suffix for path in _RESULTS} == {".json"}


@pytest.mark.parametrize("kept", _RESULTS, ids=lambda path: path.stem)
def test_a_kept_result_is_shown_and_drawn_on_a_page_that_loads_nothing(kept, tmp_path, shipper):
    page = tmp_path / "page.html"
    done = shipper("bench", str(kept), "--page", str(page))
    assert done.returncode == 0, done.stderr
    drawn = page.read_text()
    summaries = json.loads(kept.read_text())["summaries"]
    assert drawn.count("<svg") == len(summaries)
    assert not re.search(r"<script|\ssrc=|\shref=[\"']?[^#\"']", drawn)
    for name in {summary["contender"]["name"] for summary in summaries}:
        assert name.partition("'")[0] in done.stdout
        assert name.partition("'")[0] in drawn


def test_no_page_is_overwritten_and_none_is_drawn_unasked(tmp_path, monkeypatch, shipper):
    monkeypatch.chdir(tmp_path)
    assert shipper("bench", str(_RESULTS[0])).returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert "[SHIP-102]" in shipper("bench", str(_RESULTS[0]), "--rounds", "3").stderr
    mine = tmp_path / "mine.html"
    mine.write_text("mine")
    for measured in (str(_RESULTS[0]), "cold"):
        done = shipper("bench", measured, "--page", str(mine))
        assert (done.returncode, "[SHIP-103]" in done.stderr) == (2, True)
    assert mine.read_text() == "mine"

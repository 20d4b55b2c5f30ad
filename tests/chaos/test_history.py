"""A short history; ``make history`` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.history import run_history
from tests.chaos.history_course import Options

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]


@pytest.mark.short
@pytest.mark.parametrize("seed", [2])
def test_nothing_is_lost_or_doubled_in_a_history_of_runs(tmp_path: Path, seed: int):
    assert run_history(Options(runs=15, seed=seed), tmp_path)

"""The demo's configuration, as far as it can be checked without running the demo."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from shipper_tools.demo.config import (
    BUCKET,
    CLUSTER,
    PIPELINE,
    SECRET_VARIABLE,
    TOPICS,
    write_config,
)
from shipper_tools.samples.services import SERVICES

from shipper.config import load_all
from shipper.windows.window import Window, source_paths

HOUR = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)


def test_the_demos_configuration_is_right_and_its_topics_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "a secret")
    write_config(
        tmp_path,
        bootstrap="127.0.0.1:1",
        endpoint="http://127.0.0.1:1",
        start=HOUR,
    )
    config = load_all(tmp_path)
    assert config.faults == ()
    assert set(config.clusters) == {CLUSTER}
    pipeline = config.pipelines[PIPELINE]
    assert pipeline.schedule is not None
    assert pipeline.schedule.start == HOUR
    assert set(TOPICS) == {
        *pipeline.fixed_topics(),
        *(f"logs.{service.name}" for service in SERVICES),
    }


def test_the_demos_source_is_where_its_logs_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "a secret")
    write_config(
        tmp_path,
        bootstrap="127.0.0.1:1",
        endpoint="http://127.0.0.1:1",
        start=HOUR,
    )
    source = load_all(tmp_path).pipelines[PIPELINE].source
    assert source_paths(source.path, Window(HOUR, HOUR + dt.timedelta(hours=1))) == [
        f"s3a://{BUCKET}/2026-11-01/06/"
    ]

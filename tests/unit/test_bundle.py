"""Bundles: what may be written together with them, and what they leave as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from shipper.config import load_all
from shipper.worker.chunk import Chunk

SHORTEST = "pipeline: web\nsource: s3a://logs/web/\ntopic: logs.web\nclusters: [local]\n"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for folder in ("pipelines", "clusters"):
        (tmp_path / "config" / folder).mkdir(parents=True)
    Path("config/clusters/local.yaml").write_text("cluster: local\nbootstrap: 127.0.0.1:9092\n")
    return Path("config")


def written(config: Path, more: str) -> Path:
    (config / "pipelines" / "web.yaml").write_text(SHORTEST + more)
    return config


def faults(config: Path, more: str) -> list[str]:
    return [
        str(fault).removeprefix("config/pipelines/web.yaml:")
        for fault in load_all(written(config, more)).faults
    ]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            "records:\n  key: value\n  bundle: {}\n",
            "7:3: records.bundle: `bundle` and `key` contradict each other: lines of a bundle may "
            "have different keys, and a record has one; remove `key`, or ship each line as a "
            "record",
        ),
        (
            "records:\n  bundle: {max_bytes: 1MB}\n  timestamp: time\n",
            "6:3: records.bundle: `bundle` and `timestamp` contradict each other: lines of a "
            "bundle have different times, and a record has one; remove `timestamp`, or ship "
            "each line as a record",
        ),
        (
            "records: {bundle: {max_bytes: 2MB}}\ndelivery: {chunk_size: 1MB}\n",
            "6:1: delivery: `records.bundle.max_bytes` is larger than `delivery.chunk_size`: a "
            "chunk's lines are bundled, so such a bundle could never fill",
        ),
        (
            "records: {headers: {shipper-lines: value}}\n",
            "5:21: records.headers.shipper-lines: 'shipper-lines' is set by shipper: how many "
            "lines a bundle holds; choose another name",
        ),
        (
            "records: {bundle: {max_bytes: 10B}}\n",
            "5:31: records.bundle.max_bytes: found '10B'; it must be at least 1kB",
        ),
    ],
)
def test_what_contradicts_bundles_is_refused_at_load(
    config: Path, more: str, expected: str
) -> None:
    assert faults(config, more) == [expected]


def test_what_waits_or_is_sent_again_is_counted_in_lines() -> None:
    bundles = Chunk(
        "t", [b"a\nb\nc", b"d"], 6, b"key", lambda partition, topic_id: b"", "a.log", lines=4
    )
    alone = Chunk("t", [b"a", None], 1, b"key", lambda partition, topic_id: b"", "a.log")
    assert [chunk.counted for chunk in (bundles, alone)] == [4, 2]
    assert sum(chunk.counted for chunk in (bundles, alone)) == 6
    bundles.drop_records()
    assert bundles.counted == 4

"""What decides which records a file becomes is part of the digest. Without that a rerun would
finish a file with other records."""

import pytest

from shipper.config.pipeline import Pipeline
from shipper.driver.pieces import file_pieces
from shipper.report.plan_result import PlannedFile

BASE = {
    "pipeline": "web",
    "source": {"path": "logs"},
    "clusters": ["c"],
    "routes": [{"topic": "t"}],
}
_ROUTES = [{"topic": "errors", "when": "value LIKE '%ERROR%'"}, {"topic": "t"}]


def pipeline(**changes):
    return Pipeline.model_validate(BASE | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"source": {"path": "logs", "split_size": "1MB"}},
        {"source": {"path": "logs", "format": "jsonl"}},
        {"source": {"path": "logs", "format": "csv", "csv": {"delimiter": ";"}}},
        {"source": {"path": "logs", "codec": "none"}},
        {"delivery": {"ordering": "file"}},
        {"routes": [{"topic": "other"}]},
        {"routes": _ROUTES},
        {"records": {"value": "upper(value)"}},
        {"records": {"key": "value"}},
        {"records": {"parse": {"json": True}}},
        {"records": {"drop": {"empty": "value = ''"}}},
        {"records": {"starts_with": "[0-9]"}},
        {"records": {"max_line_bytes": "1kB"}},
        {"records": {"redact": ["email"]}},
        {"runner": {"conf": {"spark.sql.ansi.enabled": "false"}}},
    ],
    ids=str,
)
def test_what_decides_the_records_of_a_file_changes_the_digest(changes):
    assert pipeline(**changes).transform_digest() != pipeline().transform_digest()


def test_the_time_in_the_path_counts_if_records_are_made_of_it():
    def digests(**records):
        paths = ("logs/{window_start:%Y/%m/%d/%H}/", "logs/{window_start:%Y/%m/%d}/*/")
        return {pipeline(source=path, records=records).transform_digest() for path in paths}

    assert len(digests(drop={"night": "hour(window_start) < 6"})) == 2
    assert len(digests()) == 1


@pytest.mark.parametrize("path", ["/logs/a.log", "/logs/a.log.gz", "/logs/a.log.bz2"])
def test_a_file_has_the_same_splits_on_any_number_of_cores(path):
    file = PlannedFile(path=path, size_bytes=10**8, modified_ms=5, splits=1)
    machines = [pipeline(runner={"cores": cores}) for cores in (1, 2, 64)]
    cuts = [
        [
            (piece.start, piece.end, piece.split)
            for piece in file_pieces([file], on.split_size_bytes)
        ]
        for on in machines
    ]
    assert cuts[0] == cuts[1] == cuts[2]
    assert len({machine.transform_digest() for machine in machines}) == 1

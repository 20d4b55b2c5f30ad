"""The source gate on real files and real Spark."""

from __future__ import annotations

import datetime as dt
import gzip
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from shipper.config.checks import FilesCheck, FreshnessCheck, NotNullCheck, RowsCheck
from shipper.config.models import Pipeline
from shipper.report.results import CheckResult, PlannedFile, PlanResult
from spark_jobs.gates import closed, evaluate_source
from spark_jobs.records import gate_frame, lines

pytestmark = pytest.mark.spark

END = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
SECRET = "hunter2"
NULLIF = {"host": "nullif(split(value, ' ')[0], '-')", "size": "try_cast(split(value, ' ')[1] AS INT)"}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("gates").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.bindAddress", "127.0.0.1")
    # Off, so that what a test reads on stderr is Python's: Spark's executors log the values that they fail on.
    session = builder.config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF").getOrCreate()
    yield session
    session.stop()


class Logs:
    """Files in a folder, planned and read as a run does it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.columns: dict[str, str] = dict(NULLIF)
        self.key: str | None = None
        self.read: list[str] = []

    def write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        os.utime(path, (END.timestamp() - 300, END.timestamp() - 300))
        return path

    def plan(self) -> PlanResult:
        files = [
            PlannedFile(path=str(path), size_bytes=path.stat().st_size, modified_ms=path.stat().st_mtime_ns // 10**6, splits=1)
            for path in sorted(self.folder.iterdir())
        ]
        times = {"window_start": END - dt.timedelta(hours=1), "window_end": END, "started_at": END, "finished_at": END}
        return PlanResult(pipeline="web", run_id="r1", files=files, **times)

    def evaluate(self, *checks: FilesCheck | FreshnessCheck | RowsCheck | NotNullCheck) -> list[CheckResult]:
        plan = self.plan()
        pipeline = Pipeline.model_validate(
            {
                "pipeline": "web",
                "source": "/logs",
                "topic": "t",
                "clusters": ["c"],
                "records": {"columns": self.columns, "key": self.key},
            }
        )

        def content(on: str) -> DataFrame:
            self.read.append(on)
            paths = [file.path for file in plan.files]
            return gate_frame(lines(self.spark, paths[:1] if on == "sample" else paths), pipeline)

        return evaluate_source(checks, plan, content)


@pytest.fixture
def logs(spark: SparkSession, tmp_path: Path) -> Logs:
    made = Logs(spark, tmp_path)
    made.write("a.log", b"web1 200\nweb2 x\n- 300\n\xff\xfe 400\n")
    made.write("b.log.gz", b"web1 100\n" * 96)
    return made


def rows(**fields: object) -> RowsCheck:
    return RowsCheck(check="rows", **fields)


def not_null(column: str, **fields: object) -> NotNullCheck:
    return NotNullCheck(check="not_null", column=column, **fields)


def cost(spark: SparkSession, jobs_before: int) -> tuple[int, int]:
    """(jobs, stages that read input) since ``jobs_before``, by Spark's own status store."""
    time.sleep(1)  # the store lags behind
    store = spark.sparkContext._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    new = range(jobs.size() - jobs_before)  # the newest come first
    stages = {stage for job in new for stage in jobs.apply(job).stageIds().mkString(",").split(",")}
    return len(new), sum(store.lastStageAttempt(int(stage)).inputRecords() > 0 for stage in stages)


def jobs_so_far(spark: SparkSession) -> int:
    time.sleep(1)
    return spark.sparkContext._jsc.sc().statusStore().jobsList(None).size()


def test_each_check_passes_and_fails_on_real_files(logs: Logs) -> None:
    checks = {
        FilesCheck(check="files", min=2): "2 files",
        FilesCheck(check="files", min=3): "2 files",
        FreshnessCheck(check="freshness", max_age="5m"): "newest file 5m before the window's end",
        FreshnessCheck(check="freshness", max_age="4m59s"): "newest file 5m before the window's end",
        rows(min=4, max=4): "4 rows in the sample",
        rows(min=5): "4 rows in the sample",
        rows(min=100, on="full"): "100 rows in all files",
        rows(min=None, max=99, on="full"): "100 rows in all files",
        not_null("value"): "0 of 4 rows null (100 % not null) in the sample",
        not_null("host"): "1 of 4 rows null (75 % not null) in the sample",
        not_null("host", min_rate=0.99, on="full"): "1 of 100 rows null (99 % not null) in all files",
        not_null("size", min_rate=0.995, on="full"): "1 of 100 rows null (99 % not null) in all files",
    }
    results = logs.evaluate(*checks)
    assert [result.observed for result in results] == list(checks.values())
    assert [result.passed for result in results] == [True, False] * 6
    assert sorted(logs.read) == ["full", "sample"]


def test_the_key_can_be_checked(logs: Logs) -> None:
    logs.key = "host"
    (result,) = logs.evaluate(not_null("key"))
    assert result.observed.startswith("1 of 4 rows null")


def test_empty_files_hold_no_column_check(logs: Logs) -> None:
    logs.write("a.log", b"")
    results = logs.evaluate(rows(min=0), rows(), not_null("value"), not_null("host", min_rate=0.01))
    assert [result.passed for result in results] == [True, False, False, False]
    assert results[2].observed == "0 rows in the sample: nothing to judge by"


def test_a_misspelt_column_blocks_and_the_other_checks_are_evaluated(logs: Logs) -> None:
    typo, host = logs.evaluate(not_null("hots", severity="warn"), not_null("host", min_rate=0.7))
    assert host.passed
    assert closed([typo]) == [typo]
    assert typo.observed.endswith("there is no column 'hots'; there are: host, size, value")


def test_a_truncated_file_blocks_and_is_named(logs: Logs) -> None:
    path = logs.write("b cut.log.gz", b"".join(b"line %d\n" % i for i in range(100_000)))
    path.write_bytes(path.read_bytes()[:20_000])
    sample, full, column = logs.evaluate(rows(), rows(on="full", severity="warn"), not_null("value", on="full", severity="warn"))
    assert sample.passed
    for result in closed([full, column]):
        assert f"{path} cannot be read: gone, not permitted, or corrupt (FAILED_READ_FILE" in result.observed
    assert len(closed([full, column])) == 2


def test_a_file_that_vanished_after_the_plan_blocks(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = logs.plan()
    monkeypatch.setattr(logs, "plan", lambda: plan)
    (logs.folder / "a.log").unlink()
    (result,) = logs.evaluate(rows(severity="warn"))
    assert closed([result])
    assert "a.log" in result.observed


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What reaches the loggers that quote values; their own handlers write to whatever stderr was when they were made."""
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(f"{record.getMessage()} {record.exc_info}")  # type: ignore[method-assign]
    loggers = [PySparkLogger.getLogger("SQLQueryContextLogger"), logging.getLogger("great_expectations")]
    for logger in loggers:
        logger.addHandler(handler)
    yield records
    for logger in loggers:
        logger.removeHandler(handler)


@pytest.mark.parametrize(
    ("expression", "condition"),
    [
        ("CAST(split(value, ' ')[1] AS INT)", "CAST_INVALID_INPUT"),
        ("assert_true(value IS NULL, value)", "USER_RAISED_EXCEPTION"),
        ("to_timestamp(value, 'yyyy')", "CANNOT_PARSE_TIMESTAMP"),
    ],
)
def test_no_log_content_in_results_or_on_stderr(
    logs: Logs, capfd: pytest.CaptureFixture[str], logged: list[str], expression: str, condition: str
) -> None:
    logs.write("a.log", f"{SECRET} {SECRET}\n- {SECRET}\n".encode())
    logs.columns["strict"] = expression
    capfd.readouterr()
    results = logs.evaluate(rows(), *(not_null(column) for column in ("host", "size", "strict", "value")))
    assert [result.passed for result in results] == [True, False, False, False, True]
    assert f"could not be evaluated, so it blocks: Spark stopped with {condition};" in results[3].observed
    out, err = capfd.readouterr()
    assert SECRET not in "".join(result.model_dump_json() for result in results)
    assert SECRET not in out + err + "".join(logged)


def test_a_suite_of_rows_and_three_columns_reads_the_files_twice(spark: SparkSession, logs: Logs) -> None:
    before = jobs_so_far(spark)
    results = logs.evaluate(rows(), *(not_null(column, min_rate=0.5) for column in ("value", "host", "size")))
    assert not closed(results)
    assert cost(spark, before) == (4, 2)

    before = jobs_so_far(spark)
    logs.evaluate(rows(min=2), rows(max=9))
    assert cost(spark, before) == (2, 1)

    before = jobs_so_far(spark)
    logs.evaluate(FilesCheck(check="files"), FreshnessCheck(check="freshness", max_age="1h"))
    assert cost(spark, before) == (0, 0)


def test_spark_is_left_as_it_was(spark: SparkSession, logs: Logs, capfd: pytest.CaptureFixture[str]) -> None:
    settings = dict(spark.conf.getAll)
    capfd.readouterr()
    assert not closed(logs.evaluate(rows(), not_null("value", on="full"), FilesCheck(check="files")))
    assert capfd.readouterr() == ("", ""), "no progress bars, no warnings"
    assert spark.sparkContext._jsc.sc().getPersistentRDDs().size() == 0, "nothing is cached"
    assert dict(spark.conf.getAll) == settings
    assert SparkSession.getActiveSession() is spark

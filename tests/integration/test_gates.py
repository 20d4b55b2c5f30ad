"""The source gate on real files and real Spark."""

import json
import logging
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from shipper.config.pipeline import Pipeline
from shipper.config.rules import regex_groups
from spark_jobs.frame import is_parsed, with_parsed
from tests.integration.source_world import Logs
from tests.samples.results import closed

pytestmark = pytest.mark.spark

SECRET = "hunter2"
NULLIF = {
    "host": "nullif(split(value, ' ')[0], '-')",
    "size": "try_cast(split(value, ' ')[1] AS INT)",
}


@pytest.fixture
def logs(spark, tmp_path):
    made = Logs(spark, tmp_path, records={"columns": dict(NULLIF)})
    made.write("a.log", b"web1 200\nweb2 x\n- 300\n\xff\xfe 400\n")
    made.write("b.log.gz", b"web1 100\n" * 96)
    made.pipeline["gates"] = {"sample_files": 1}
    return made


def evaluate(logs, *checks, plan=None):
    return logs.evaluation(checks, plan)[0]


def rows(**fields):
    return {"check": "rows", **fields}


def not_null(column, **fields):
    return {"check": "not_null", "column": column, **fields}


def cost(spark, jobs_before):
    """(jobs, stages that read input) since ``jobs_before``, by Spark's own status store."""
    time.sleep(1)  # the store lags behind
    store = spark.sparkContext._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    new = range(jobs.size() - jobs_before)  # the newest come first
    stages = {stage for job in new for stage in jobs.apply(job).stageIds().mkString(",").split(",")}
    return len(new), sum(store.lastStageAttempt(int(stage)).inputRecords() > 0 for stage in stages)


def jobs_so_far(spark):
    time.sleep(1)
    return spark.sparkContext._jsc.sc().statusStore().jobsList(None).size()


@pytest.mark.long
def test_rows_are_counted_in_the_sample_and_in_all_files(logs):
    said = "4 rows in the sample (`on: full` counts all)"
    checks = [
        (rows(min=4, max=4, on="sample"), said),
        (rows(min=5, on="sample"), said),
        (rows(min=100, on="full"), "100 rows in all files"),
        (rows(min=None, max=99, on="full"), "100 rows in all files"),
        (not_null("value"), "0 of 4 rows null (100 % not null) in the sample"),
        (not_null("host"), "1 of 4 rows null (75 % not null) in the sample"),
        (
            not_null("host", min_rate=0.99, on="full"),
            "1 of 100 rows null (99 % not null) in all files",
        ),
        (
            not_null("size", min_rate=0.995, on="full"),
            "1 of 100 rows null (99 % not null) in all files",
        ),
    ]
    evaluation, view = logs.evaluation([check for check, _ in checks])
    assert [result.observed for result in evaluation] == [said for _, said in checks]
    assert [result.passed for result in evaluation] == [True, False] * 4
    assert view.scans == 2
    assert view.scope == (
        "sample: 1 piece of 1 of 2 files left to ship; full: all 2 files left to ship"
    )


@pytest.mark.long
def test_a_sample_has_as_many_rows_counted_without_spark(spark, tmp_path):
    logs = Logs(spark, tmp_path, records={"max_line": "1kB"})
    logs.pipeline["gates"] = {"sample_files": 10, "sample_piece": "64KiB"}
    logs.write("plain.log", b"\n\r\n" + b"line\n" * 40_000 + b"no end")
    logs.write("long.log", b"a\n" + b"x" * 2_000 + b"\nb\n")
    logs.write("binary.log", bytes(range(256)) * 100)
    logs.write("packed.log.gz", b"line\n" * 30_000)
    cut = logs.write("cut.log.gz", b"".join(b"line %d\n" % i for i in range(50_000)))
    cut.write_bytes(cut.read_bytes()[:9_000])
    (logs.folder / "gone.log").write_bytes(b"line\n")
    found = []
    for session in (spark, None):
        (logs.folder / "gone.log").write_bytes(b"line\n")
        logs.set_age("gone.log", 300)
        view = replace(logs.view([rows()]), spark=session)
        (logs.folder / "gone.log").unlink()
        counted = view.measure("sample", {"rows": "count(*)"})
        problems = {file.path: (file.problem, file.passing) for file in view.left if file.problem}
        found.append((counted, problems, view.scope))
    assert found[0] == found[1]
    assert {path.rsplit("/", 1)[1] for path in found[0][1]} == {"cut.log.gz", "gone.log"}


LINES = b"".join(
    b"web%d 2026-11-01T11:%02d:00Z %d\n" % (i % 3, i % 60, 200 if i % 10 else 500)
    for i in range(200)
)
JSON = b"".join(b'{"id": %d, "host": "web1"}\n' % i for i in range(200))
COLUMNS = {
    "host": "get(split(value, ' '), 0)",
    "at": "get(split(value, ' '), 1)",
    "status": "try_cast(get(split(value, ' '), 2) AS INT)",
}
ROUTES = [
    {"topic": "errors.web", "when": "status >= 500"},
    {"topic": "logs.{host}", "matching": r"logs\.\w+"},
]
OF_LINES = {
    "most match": {"check": "matches", "regex": r"^\S+ .*'?$", "min_rate": 0.99},
    "known": {"check": "allowed", "column": "status", "values": [200, "500", "it's"]},
    "most in the window": {"check": "in_window", "column": "at", "min_rate": 0.99},
    "about in it": {"check": "in_window", "column": "at", "before": "1s", "after": "1s"},
    "gap": {"check": "max_gap", "column": "at", "max": "5m"},
    "length": {"check": "line_length", "min": "20B", "p50": "29B", "p99": "100B"},
    "no topic starves": {"check": "route_rate", "min_share": 0.05},
    "shares": {
        "check": "route_rate",
        "topics": {"errors.web": {"max": 0.1}, "logs.web1": {"min": 0.2}},
    },
    "most are low": {"check": "condition", "name": "low", "sql": "status < 500", "min_rate": 0.89},
}
BEFORE, BEHIND = b"web1 2026-11-01T10:59:59Z 200\n", b"web1 2026-11-01T12:00:01Z 200\n"
OF_JSON = {
    "fields": {"check": "schema", "fields": ["id"], "optional": ["host"]},
    "some fields": {"check": "schema", "fields": ["id"], "new_fields": "allow"},
    "unique": {"check": "unique", "min_rate": 0.9},
    "unique id": {"check": "unique", "column": "id", "min_rate": 0.9},
}


@pytest.mark.parametrize(
    ("checks", "content", "closed_by"),
    [
        (OF_LINES, LINES + BEFORE, set()),
        (OF_LINES, LINES + b"it's\n" * 3, set(OF_LINES) - {"gap", "no topic starves", "shares"}),
        (OF_LINES, LINES + BEHIND * 3, {"most in the window", "about in it"}),
        (OF_LINES, LINES.replace(b"T11:56", b"T12:56"), {"most in the window", "about in it"}),
        (OF_LINES, LINES.replace(b"T11:0", b"T11:1"), {"gap"}),
        (OF_LINES, LINES.replace(b"T11:5", b"T11:4"), {"gap"}),
        (OF_LINES, LINES.replace(b" 200", b" 500"), {"shares", "most are low"}),
        (OF_LINES, LINES.replace(b" 500", b" 200"), {"no topic starves"}),
        (OF_LINES, LINES.replace(b"web1", b"web2"), {"shares"}),
        (OF_JSON, JSON, set()),
        (OF_JSON, JSON + b'{"id": 7, "new": 1}\n', {"fields"}),
        (OF_JSON, JSON.replace(b'"id"', b'"ID"'), {"fields", "some fields", "unique id"}),
        (OF_JSON, JSON * 2, {"unique", "unique id"}),
    ],
)
def test_each_check_of_lines_passes_and_fails_on_real_lines(
    spark, tmp_path, checks, content, closed_by
):
    columns = {**COLUMNS, "id": "get_json_object(value, '$.id')"}
    logs = Logs(spark, tmp_path, records={"columns": columns}, routes=ROUTES)
    logs.write("a.log", content)
    results = evaluate(logs, *({**check, "on": "full"} for check in checks.values()))
    found = dict(zip(checks, results, strict=True))
    assert {name for name, result in found.items() if not result.passed} == closed_by
    assert len(closed(results)) == len(closed_by)
    assert not any("could not be evaluated" in result.observed for result in results)


@pytest.mark.long
def test_a_column_that_spark_does_not_know_blocks_and_the_other_checks_are_evaluated(logs):
    columns = logs.pipeline["records"]["columns"]
    columns["typo"] = "hots"
    typo, host = evaluate(logs, not_null("typo", severity="warn"), not_null("host", min_rate=0.7))
    assert closed([typo, host]) == [typo, host], "no frame can be made at all"
    assert "there is no column `hots`" in typo.observed
    del columns["typo"]
    typo, host = evaluate(
        logs,
        {"check": "condition", "name": "x", "sql": "hots = 1", "severity": "warn"},
        not_null("host", min_rate=0.7),
    )
    assert host.passed
    assert closed([typo]) == [typo]
    assert "there is no column `hots`" in typo.observed


ALL_OR_NOTHING = {"path": "logs", "on_unreadable": "fail"}


def test_a_suite_of_ones_own_judges_records_and_keeps_no_value(logs, tmp_path):
    from spark_jobs.gates.source import judge_all

    def judge(*expectations, **fields):
        suite = [{"type": f"expect_{kind}", "kwargs": kwargs} for kind, kwargs in expectations]
        (tmp_path / "web.json").write_text(json.dumps({"name": "web", "expectations": suite}))
        check = {"check": "expectations", "suite": "web.json", "on": "full", **fields}
        view = logs.view([check])
        results, documents = judge_all(view.pipeline.gates.source, view, tmp_path)
        return results[0], "".join(documents.values())

    known = ("column_values_to_be_in_set", {"column": "host", "value_set": ["web1"]})
    biggest = ("column_max_to_be_between", {"column": "size", "max_value": 200})
    rows = ("table_row_count_to_be_between", {"min_value": 100, "max_value": 100})
    closed_by, document = judge(known, rows, biggest)
    assert not closed_by.passed
    assert closed_by.observed.startswith("2 of 3 expectations do not hold: ")
    assert "expect_column_values_to_be_in_set(host): 2 of 100 rows (2 %)" in closed_by.observed
    assert closed_by.observed.endswith("; over 100 rows in all files")
    of_gx = json.loads(document)
    assert of_gx["statistics"]["unsuccessful_expectations"] == 2
    assert "web2" not in document, "no value"
    assert {"observed_value", "partial_unexpected_list"}.isdisjoint(of_gx["results"][0]["result"])
    assert "web2" in judge(known, values=True)[1]
    passed, _ = judge(("column_values_to_be_in_set", {**known[1], "mostly": 0.9}), rows)
    assert passed.passed
    limited, _ = judge(rows, max_rows=50, severity="warn")
    assert (limited.passed, limited.severity) == (False, "warn")
    assert limited.observed.endswith("; over the first 50 rows in all files")
    for unknown in (("nothing_like_this", {}), ("column_values_to_not_be_null", {"column": "no"})):
        blocks, _ = judge(rows, unknown, severity="warn")
        assert (blocks.passed, blocks.severity) == (False, "block"), blocks
        assert "could not be evaluated" in blocks.observed


def test_a_truncated_file_blocks_and_is_named(logs):
    path = logs.write("b cut.log.gz", b"".join(b"line %d\n" % i for i in range(100_000)))
    path.write_bytes(path.read_bytes()[:20_000])
    logs.pipeline["source"] = ALL_OR_NOTHING
    sample, full, column = evaluate(
        logs,
        rows(),
        rows(on="full", severity="warn"),
        not_null("value", on="full", severity="warn"),
    )
    assert sample.passed
    for result in closed([full, column]):
        assert (
            f"1 file cannot be read: {path}: it is cut off: its gzip content has no end"
            in result.observed
        )
    assert len(closed([full, column])) == 2
    logs.pipeline["source"] = "logs"
    assert evaluate(logs, rows(on="full"))[0].passed, "the others are shipped, and the ship fails"


@pytest.mark.long
def test_a_file_that_vanished_after_the_plan_blocks(logs):
    plan = logs.plan()
    (logs.folder / "a.log").unlink()
    logs.pipeline["source"] = ALL_OR_NOTHING
    (result,) = evaluate(logs, rows(severity="warn"), plan=plan)
    assert closed([result])
    assert "a.log" in result.observed


REGEXES = [
    r"(?<host>\S+) (?<status>\d{3})(?<rest>.*)$",
    r"^(?<host>[a-z]*)(?:(?<status>\d)|(?<rest>x))",
    r"(\w)(?<host>(?<status>.)?)\1?(?<rest>é*)",
]


@pytest.mark.parametrize("regex", REGEXES)
@pytest.mark.long
def test_groups_of_a_parse_are_what_spark_s_functions_say(spark, regex):
    pipeline = Pipeline.model_validate(
        {
            "pipeline": "web",
            "source": "logs",
            "topic": "logs.web",
            "clusters": ["c"],
            "quarantine": {"topic": "bad"},
            "records": {"parse": {"regex": regex}},
        }
    )
    texts = [
        None,
        "",
        "web1 200 é",
        "a1",
        "ax",
        "x" * 500,
        "aa\x00 404",
        "\ufffd 500 \n",
        "éé 200é",
    ]
    frame = spark.createDataFrame([(text,) for text in texts], "value string")
    names = list(pipeline.records.parse.columns)
    found = with_parsed(frame, pipeline).select(is_parsed(pipeline.records.parse), *names).collect()
    groups = [index for index, name in enumerate(regex_groups(regex), 1) if name is not None]
    matches = F.col("value").rlike(regex)
    spoken = frame.select(
        F.coalesce(matches, F.lit(False)),
        *(F.when(matches, F.regexp_extract("value", regex, index)) for index in groups),
    ).collect()
    assert [tuple(row) for row in found] == [tuple(row) for row in spoken]
    assert any(row[0] for row in found)
    assert not all(row[0] for row in found)


@pytest.fixture
def logged():
    """What reaches the loggers that quote values; their own handlers write to whatever stderr was
    when they were made."""
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(f"{record.getMessage()} {record.exc_info}")
    loggers = [
        PySparkLogger.getLogger("SQLQueryContextLogger"),
        logging.getLogger("great_expectations"),
    ]
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
def test_no_log_content_in_results_or_on_stderr(logs, capfd, logged, expression, condition):
    logs.write("a.log", f"{SECRET} {SECRET}\n- {SECRET}\n".encode())
    logs.pipeline["records"]["columns"]["strict"] = expression
    capfd.readouterr()
    results = evaluate(
        logs, rows(), *(not_null(column) for column in ("host", "size", "strict", "value"))
    )
    assert [result.passed for result in results] == [True, False, False, False, True]
    assert (
        f"could not be evaluated, so it blocks: Spark stopped with {condition}"
        in results[3].observed
    )
    out, err = capfd.readouterr()
    assert SECRET not in "".join(result.model_dump_json() for result in results)
    assert SECRET not in out + err + "".join(logged)


def numbered(count):
    return b"".join(b"line %07d\n" % i for i in range(count))


@pytest.mark.long
def test_a_sample_of_a_large_file_is_a_few_pieces_of_it_and_the_same_each_time(spark, tmp_path):
    logs = Logs(spark, tmp_path, gates={"sample_files": 3, "sample_piece": "64KiB"})
    logs.write("large.log", numbered(100_000))  # 1.3 MB
    figures = {
        "rows": "count(*)",
        "all": "sum(crc32(value))",
        "first": "min(value)",
        "last": "max(value)",
    }
    figures["distinct"] = "count(DISTINCT value)"
    setting = spark.conf.get("spark.sql.files.maxPartitionBytes")
    before = jobs_so_far(spark)
    found = logs.view([rows()]).measure("sample", figures)
    assert found == logs.view([rows()]).measure("sample", figures)
    assert cost(spark, before)[1] == 2, "one scan each"
    assert found["rows"] == found["distinct"]
    assert abs(found["rows"] - 3 * 64 * 1024 / 13) < 5
    assert found["first"] == "line 0000000"
    assert "line 006" < found["last"] < "line 008", "the third piece begins at two thirds"
    assert spark.conf.get("spark.sql.files.maxPartitionBytes") == setting


@pytest.mark.long
def test_a_sample_of_a_large_compressed_file_is_its_first_lines(spark, tmp_path):
    logs = Logs(spark, tmp_path, gates={"sample_files": 2, "sample_piece": "64KiB"})
    logs.write("large.log.gz", numbered(200_000))
    logs.write("small.log", numbered(10))
    found = logs.view([rows()]).measure("sample", {"rows": "count(*)", "last": "max(value)"})
    assert found == {"rows": 20_010, "last": "line 0019999"}


@pytest.mark.long
def test_a_sample_of_many_kinds_of_files_has_the_columns_of_all(spark, tmp_path):
    routes = [{"topic": "logs.{file_name}", "matching": r"logs\..+"}]
    logs = Logs(spark, tmp_path, gates={"sample_files": 3, "sample_piece": "64KiB"}, routes=routes)
    logs.write("a.log", numbered(10))
    logs.write("b.log", numbered(20_000))
    logs.write("c.log.gz", numbered(200_000))
    limits = {f"logs.{name}": {"min": 0.0001} for name in ("a.log", "b.log", "c.log.gz")}
    (result,) = evaluate(logs, {"check": "route_rate", "topics": limits})
    assert result.passed, result.observed


@pytest.mark.long
def test_files_of_the_same_size_are_duplicates_only_if_all_their_bytes_are_the_same(logs):
    content = numbered(2000)
    logs.write("1.log", content)
    logs.write("2.log", content.replace(b"0001000", b"x001000"))
    (result,) = evaluate(logs, {"check": "duplicate_files"})
    assert result.passed
    logs.write("sub/3.log", content)
    (result,) = evaluate(logs, {"check": "duplicate_files"})
    assert closed([result])
    assert result.observed == "1 file with the content of another: 1.log = sub/3.log"
    (logs.folder / "1.log").rename(logs.folder / "gone.log")
    plan = logs.plan()
    (logs.folder / "gone.log").unlink()
    (result,) = evaluate(logs, {"check": "duplicate_files", "severity": "warn"}, plan=plan)
    assert closed([result])
    assert "gone.log cannot be compared with the other files" in result.observed


@pytest.mark.long
def test_spark_is_left_as_it_was(spark, logs, capfd):
    settings = dict(spark.conf.getAll)
    capfd.readouterr()
    assert not closed(
        evaluate(
            logs, rows(), not_null("value", on="full"), {"check": "files"}, {"check": "unique"}
        )
    )
    assert capfd.readouterr() == ("", ""), "no progress bars, no warnings"
    assert spark.sparkContext._jsc.sc().getPersistentRDDs().size() == 0, "nothing is cached"
    assert dict(spark.conf.getAll) == settings
    assert SparkSession.getActiveSession() is spark


PLAIN_RUN = """
import socket
def no_network(*args, **options): raise AssertionError("it wants the network")
socket.socket.connect = socket.getaddrinfo = no_network
from shipper.config.content_checks import NotNullCheck
from spark_jobs.gates import judging
from spark_jobs.gates.figures import Bound, CheckFigures, Unjudged
from spark_jobs.gates.source import judged
check = NotNullCheck(check="not_null", column="a")
found = judged([Unjudged(check, "?", CheckFigures((Bound(value, min=1),), "")) for value in (1, 0)])
assert found[0].passed and not found[1].passed
import pandas as pd
raising = judging.gxe.ExpectColumnMeanToBeBetween(column="a", min_value=1)
with judging.quiet():
    suite = judging.gx.ExpectationSuite(name="x", expectations=[raising])
    judging.batch(pd.DataFrame({"a": ["SECRET"]})).validate(suite)
print("done")
"""


@pytest.mark.long
def test_great_expectations_writes_prints_and_sends_nothing(tmp_path):
    home, here, temporary = (tmp_path / name for name in ("home", "here", "tmp"))
    for folder in (home, here, temporary):
        folder.mkdir()
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("GX_", "XDG_"))}
    surroundings = {
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    script = tmp_path / "plain.py"
    # With ``python -c`` pyspark takes itself for a doctest, and leaves with exit code 0 without a
    # word of ours.
    script.write_text(PLAIN_RUN)
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        cwd=here,
        env={**clean, **surroundings},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert [path for path in tmp_path.rglob("*") if path.parent != tmp_path] == []

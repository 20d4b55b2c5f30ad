import datetime as dt

import pandas as pd
import pytest

from shipper.config.checks import FilesCheck, FreshnessCheck, NotNullCheck, RowsCheck
from shipper.errors import SourceError
from shipper.report.results import PlannedFile, PlanResult
from spark_jobs.gates import closed, evaluate_source

END = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
LINES = pd.DataFrame({"value": ["a", "b", "c"], "host": ["x", None, "z"]})


def plan(*ages_seconds):
    files = [
        PlannedFile(path=f"/logs/{i}.log", size_bytes=10, modified_ms=int((END.timestamp() - age) * 1000), splits=1)
        for i, age in enumerate(ages_seconds)
    ]
    times = {"window_start": END - dt.timedelta(hours=1), "window_end": END, "started_at": END, "finished_at": END}
    return PlanResult(pipeline="web", run_id="r1", files=files, **times)


def no_content(on):
    raise AssertionError("a check on the listing reads no content")


def listing(check, *ages_seconds):
    (result,) = evaluate_source([check], plan(*ages_seconds), no_content)
    return result.passed, result.expected, result.observed


def files(**fields):
    return FilesCheck(check="files", **fields)


def fresh(max_age="10m", **fields):
    return FreshnessCheck(check="freshness", max_age=max_age, **fields)


def rows(**fields):
    return RowsCheck(check="rows", **fields)


def not_null(column, **fields):
    return NotNullCheck(check="not_null", column=column, **fields)


@pytest.mark.parametrize(
    ("check", "count", "result"),
    [
        (files(), 12, (True, "≥ 1 files", "12 files")),
        (files(), 0, (False, "≥ 1 files", "0 files")),
        (files(min=12), 11, (False, "≥ 12 files", "11 files")),
        (files(min=1, max=3), 3, (True, "1–3 files", "3 files")),
        (files(min=1, max=3), 4, (False, "1–3 files", "4 files")),
        (files(min=2, max=2), 1, (False, "2 files", "1 file")),
        (files(min=None, max=1), 0, (True, "≤ 1 files", "0 files")),
        (files(min=0), 0, (True, "≥ 0 files", "0 files")),
    ],
)
def test_files(check, count, result):
    assert listing(check, *[60] * count) == result


@pytest.mark.parametrize(
    ("ages_seconds", "passed", "observed"),
    [
        ([4000, 600, 5000], True, "newest file 10m before the window's end"),
        ([600.001, 4000], False, "newest file 10m1s before the window's end"),
        ([-90], True, "newest file 1m30s after the window's end"),
        ([0], True, "newest file 0s before the window's end"),
        ([], False, "no files"),
    ],
)
def test_freshness_is_the_newest_files_age_at_the_windows_end(ages_seconds, passed, observed):
    expected = "newest file ≤ 10m before the window's end"
    assert listing(fresh("10m"), *ages_seconds) == (passed, expected, observed)


@pytest.mark.parametrize(
    ("check", "result"),
    [
        (rows(), (True, "≥ 1 rows", "3 rows in the sample")),
        (rows(min=4), (False, "≥ 4 rows", "3 rows in the sample")),
        (rows(min=1, max=2, on="full"), (False, "1–2 rows", "3 rows in all files")),
        (not_null("value"), (True, "no nulls", "0 of 3 rows null (100 % not null) in the sample")),
        (not_null("host", on="full"), (False, "no nulls", "1 of 3 rows null (66.6666 % not null) in all files")),
        (not_null("host", min_rate=0.66), (True, "≥ 66 % not null", "1 of 3 rows null (66.6666 % not null) in the sample")),
        (not_null("host", min_rate=0.667), (False, "≥ 66.7 % not null", "1 of 3 rows null (66.6666 % not null) in the sample")),
    ],
)
def test_content_checks(check, result):
    (found,) = evaluate_source([check], plan(1), lambda on: LINES)
    assert (found.passed, found.expected, found.observed) == result


def test_a_share_just_below_the_limit_never_looks_like_the_limit():
    frame = pd.DataFrame({"value": [None, *["x"] * 2_999_999]})
    (found,) = evaluate_source([not_null("value")], plan(1), lambda on: frame)
    assert not found.passed
    assert found.observed == "1 of 3,000,000 rows null (99.9999 % not null) in the sample"


def test_results_come_in_the_order_of_the_checks_and_each_scope_is_read_once():
    asked = []

    def content(on):
        asked.append(on)
        return LINES if on == "sample" else pd.concat([LINES, LINES])

    checks = [not_null("host"), files(), rows(on="full"), fresh(), rows(), not_null("value", on="full"), not_null("host")]
    results = evaluate_source(checks, plan(60), content)
    names = ["not_null(host)", "files", "rows", "freshness", "rows", "not_null(value)", "not_null(host)"]
    assert [result.check for result in results] == names
    assert [result.passed for result in results] == [False, True, True, True, True, True, False]
    assert [results[2].observed, results[4].observed] == ["6 rows in all files", "3 rows in the sample"]
    assert sorted(asked) == ["full", "sample"]


def test_zero_rows_fail_column_checks_with_their_own_severity():
    results = evaluate_source([rows(min=0), not_null("value", severity="warn")], plan(1), lambda on: LINES.iloc[:0])
    assert [(result.passed, result.severity) for result in results] == [(True, "block"), (False, "warn")]
    assert results[1].observed == "0 rows in the sample: nothing to judge by"
    assert closed(results) == []


def test_a_check_that_cannot_be_evaluated_blocks_even_if_it_would_only_warn():
    results = evaluate_source([rows(), not_null("hots", severity="warn")], plan(1), lambda on: LINES)
    assert results[0].passed
    (closing,) = closed(results)
    assert closing.check == "not_null(hots)"
    assert closing.observed == "could not be evaluated, so it blocks: there is no column 'hots'; there are: host, value"


def test_content_that_cannot_be_read_blocks_its_checks_and_no_others():
    def content(on):
        if on == "full":
            raise SourceError("cannot read /logs/0.log: denied")
        return LINES

    results = evaluate_source([files(), rows(), rows(on="full", severity="warn")], plan(1), content)
    assert [result.passed for result in results] == [True, True, False]
    assert closed(results) == [results[2]]
    assert results[2].observed.endswith("cannot read /logs/0.log: denied")


def test_a_check_that_nothing_could_fail_blocks():
    (result,) = evaluate_source(
        [FilesCheck.model_construct(check="files", severity="block", min=None, max=None)], plan(1), no_content
    )
    assert closed([result])
    assert "neither `min` nor `max`" in result.observed


def test_a_check_of_a_kind_that_shipper_does_not_know_blocks():
    class Strange:
        check, severity = "strange", "warn"

    (result,) = evaluate_source([Strange()], plan(1), no_content)
    assert closed([result]) == [result]
    assert "there is no check 'strange'" in result.observed

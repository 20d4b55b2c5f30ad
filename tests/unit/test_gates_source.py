import datetime as dt
from functools import partial
from types import SimpleNamespace

import pytest
from pydantic import TypeAdapter
from pyspark.errors import AnalysisException

from shipper.config.content_checks import SourceCheck
from shipper.errors import SourceError
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.results import PastRun
from tests.samples.results import closed

END = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def setup_module():
    """Import Great Expectations, which takes seconds, where these tests run: each of pytest's
    workers collects each file."""
    global figures, judge_source, judged
    from spark_jobs.gates import figures
    from spark_jobs.gates.source import judge_source, judged


def check(kind, **fields):
    return TypeAdapter(SourceCheck).validate_python({"check": kind, **fields})


files, fresh, rows = partial(check, "files"), partial(check, "freshness"), partial(check, "rows")
not_null = partial(check, "not_null")


def plan(*ages_seconds, paths=None, sizes=None, hours=1):
    listed = [
        PlannedFile(
            path=paths[i] if paths else f"/logs/{i}.log",
            size_bytes=sizes[i] if sizes else 10,
            modified_ms=int((END.timestamp() - age) * 1000),
            splits=1,
        )
        for i, age in enumerate(ages_seconds)
    ]
    times = {
        "window_start": END - hours * HOUR,
        "window_end": END,
        "started_at": END,
        "finished_at": END,
    }
    return PlanResult(pipeline="web", run_id="r1", files=listed, source_root="/logs/", **times)


def no_content(scope, figures):
    raise AssertionError("a check on the listing reads no content")


class Lines:
    """A scan of ``rows`` records in which every other aggregate gives what ``figures`` says, by its
    name without the check's number."""

    def __init__(self, rows, **figures):
        self.rows, self.figures, self.asked = rows, figures, []

    def __call__(self, scope, figures):
        self.asked.append((scope, len(figures)))
        return {
            name: self.rows if name == "rows" else self.figures[name.split(".")[1]]
            for name in figures
        }


def gate(
    checks,
    planned=None,
    measure=no_content,
    history=(),
    duplicates=(),
    marked=(),
    where=lambda scope, conditions: {},
):
    pipeline = SimpleNamespace(
        source=SimpleNamespace(path="s3a://logs/{window_start:%Y/%m/%d/%H}/"),
        fixed_topics=lambda: ["logs.web"],
    )
    view = SimpleNamespace(
        plan=planned or plan(1),
        pipeline=pipeline,
        history=history if callable(history) else lambda check: history,
        duplicates=duplicates if callable(duplicates) else lambda: list(duplicates),
        marked=marked if callable(marked) else lambda: set(marked),
        measure=measure,
        where=where,
        scans=0,
        scope="",
    )
    return judge_source(checks, view)


def one(checked, *args, **options):
    (result,) = gate([checked], *args, **options)
    return result.passed, result.expected, result.observed


@pytest.mark.parametrize(
    ("check", "count", "result"),
    [
        (files(), 0, (False, "≥ 1 file", "0 files")),
        (files(min=12), 11, (False, "≥ 12 files", "11 files")),
        (files(min=1, max=3), 3, (True, "1–3 files", "3 files")),
        (files(min=1, max=3), 4, (False, "1–3 files", "4 files")),
        (files(min=None, max=1), 0, (True, "≤ 1 file", "0 files")),
    ],
)
def test_files(check, count, result):
    assert one(check, plan(*[60] * count)) == result


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
    assert one(fresh(max_age="10m"), plan(*ages_seconds)) == (passed, expected, observed)


def hourly(*hours):
    return [f"s3a://logs/2026/11/01/{hour:02}/a.log" for hour in hours]


@pytest.mark.parametrize(
    ("paths", "passed", "observed"),
    [
        (hourly(9, 10, 11), True, "right in 3 parts"),
        (hourly(9, 11), False, "1 of 3 parts wrong: 2026-11-01T10:00Z has 0"),
        (hourly(9, 10, 11, 11, 11), False, "1 of 3 parts wrong: 2026-11-01T11:00Z has 3"),
        (hourly(8, 9, 10, 11, 12), True, "right in 3 parts; 2 files outside the window"),
        (
            [*hourly(9, 10, 11), "s3a://logs/x.log"],
            False,
            "right in 3 parts; 1 file without a time in the path",
        ),
        (
            [],
            False,
            "3 of 3 parts wrong: 2026-11-01T09:00Z has 0, 2026-11-01T10:00Z has 0, "
            "2026-11-01T11:00Z has 0",
        ),
    ],
)
def test_a_missing_hour_is_named(paths, passed, observed):
    planned = plan(*[60] * len(paths), paths=paths, hours=3)
    assert one(check("files_per", every="1h", max=2), planned) == (
        passed,
        "1–2 files in every 1h",
        observed,
    )


def past(*sizes):
    at = {"window_start": END - 9 * HOUR, "window_end": END - 8 * HOUR}
    return [
        PastRun(**at, run_id=f"r{i}", files=size // 10, bytes=size, records=1, seconds=1)
        for i, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "fields", "passed", "observed"),
    [
        ([100, 90, 5000], {}, True, "150 B; median of 3 runs 100 B, 1.50 times that"),
        (
            [100, 90, 5000],
            {"tolerance": 0.49},
            False,
            "150 B; median of 3 runs 100 B, 1.50 times that",
        ),
        ([400, 400, 400], {}, False, "150 B; median of 3 runs 400 B, 0.38 times that"),
        ([300, 300, 300], {}, True, "150 B; median of 3 runs 300 B, 0.50 times that"),
        ([0, 0, 0], {}, False, "150 B; median of 3 runs 0 B"),
        (
            [200, 200],
            {"of": "files", "min_runs": 1, "tolerance": 0.25},
            True,
            "15 files; median of 2 runs 20 files, 0.75 times that",
        ),
        (
            [200, 200],
            {"of": "files", "min_runs": 1, "tolerance": 0.2},
            False,
            "15 files; median of 2 runs 20 files, 0.75 times that",
        ),
    ],
)
def test_size_against_the_median_of_earlier_runs(sizes, fields, passed, observed):
    planned = plan(*[1] * 15)
    checked = check("size_vs_history", **fields)
    (result,) = gate([checked], planned, history=past(*sizes))
    assert (result.passed, result.observed) == (passed, observed)
    assert result.expected.startswith("median of the last 10 runs ± ")
    assert result.history == [
        float(size // (10 if fields.get("of") == "files" else 1)) for size in sizes
    ]


@pytest.mark.parametrize(
    ("sizes", "said"), [([], "no earlier run"), ([5000, 5000], "2 earlier runs, 3 are needed")]
)
def test_without_history_the_check_says_so_and_holds(sizes, said):
    assert one(check("size_vs_history"), plan(1), history=past(*sizes)) == (
        True,
        "median of the last 10 runs ± 50 %",
        f"10 B; no history to compare with yet ({said})",
    )


def test_duplicates_are_named_by_their_paths_below_the_source():
    doubled = [["/logs/a/1.log", "/logs/b/1.log", "/logs/c/2.log"], ["/logs/b/x", "/logs/b/y"]]
    passed, expected, observed = one(check("duplicate_files"), duplicates=doubled)
    assert (passed, expected) == (False, "no two files with the same content")
    assert observed == "3 files with the content of another: a/1.log = b/1.log = c/2.log, b/x = b/y"
    assert one(check("duplicate_files"))[::2] == (True, "all contents differ")
    assert one(check("duplicate_files"), plan())[::2] == (False, "no files")


def test_files_with_a_byte_order_mark_are_named():
    assert one(check("no_bom"))[::2] == (True, "none")
    assert one(check("no_bom"), plan())[::2] == (False, "no files")
    assert one(check("no_bom"), marked=["/logs/2/a.log", "/logs/1/a.log"])[::2] == (
        False,
        "2 files with one: 1/a.log, 2/a.log",
    )


def test_results_come_in_the_order_of_the_checks_and_each_scope_is_read_once():
    measure = Lines(3, good=2)
    host, all_values = not_null(column="host"), not_null(column="value", on="full")
    checks = [host, files(), rows(on="full"), fresh(max_age="1h"), rows(), all_values, host]
    found = gate(checks, measure=measure)
    names = [
        "not_null(host)",
        "files",
        "rows",
        "freshness",
        "rows",
        "not_null(value)",
        "not_null(host)",
    ]
    assert [result.check for result in found] == names
    assert [result.passed for result in found] == [False, True, True, True, True, False, False]
    assert measure.asked == [("sample", 3), ("full", 2)]


def test_zero_rows_fail_every_check_but_the_count_with_their_own_severity():
    lines = Lines(0, good=0, kept=0, distinct=0, shortest=None, longest=None, topic0=0)
    kinds = [
        not_null(column="a"),
        check("unique"),
        check("line_length", max="1kB"),
        check("route_rate", topics={"logs.web": {}}),
    ]
    warned = [kind.model_copy(update={"severity": "warn"}) for kind in kinds]
    first, *others = gate([rows(min=0), *warned], measure=lines)
    assert first.passed
    assert [(result.passed, result.severity) for result in others] == [(False, "warn")] * 4
    assert {result.observed for result in others} == {"0 rows in the sample: nothing to judge by"}


def test_a_gap_is_no_gap_where_a_part_of_the_window_is_shipped_already():
    """A run that was killed in its ship has the rest to send, and the check sees the rest alone."""
    gap = check("max_gap", column="at", max="5m")
    lines = Lines(3, gap=900, since=int(END.timestamp()) - 2000)
    for left, passed in ((True, False), (False, True)):
        planned = plan(1, 2)
        planned.files[0].left = left
        assert one(gap, planned, measure=lines)[0] is passed


def test_a_figure_that_is_null_or_missing_blocks_even_if_the_check_would_only_warn():
    for figures in ({"shortest": 1, "longest": None}, {"shortest": None, "longest": 9}, {}):
        (result,) = gate(
            [check("line_length", min="1B", max="1kB", severity="warn")],
            measure=Lines(5, **figures),
        )
        assert closed([result]) == [result]
        assert result.observed.startswith("could not be evaluated, so it blocks: ")


class Failing:
    """Spark, where every aggregate over column ``bad`` fails at a record, and ``typo`` is no
    column."""

    def __init__(self):
        self.calls = 0

    def __call__(self, scope, figures):
        self.calls += 1
        if any("`typo`" in aggregate for aggregate in figures.values()):
            raise AnalysisException("[UNRESOLVED_COLUMN] there is no `typo`")
        if any("`bad`" in aggregate for aggregate in figures.values()):
            raise RuntimeError("[CAST_INVALID_INPUT] The value 'SECRET' cannot be cast")
        return dict.fromkeys(figures, 7)


def test_a_column_that_fails_on_a_record_takes_no_other_check_with_it():
    measure = Failing()
    found = gate(
        [rows(), not_null(column="bad", severity="warn"), not_null(column="fine")], measure=measure
    )
    assert [result.passed for result in found] == [True, False, True]
    (closing,) = closed(found)
    assert closing.check == "not_null(bad)"
    assert closing.observed.startswith(
        "could not be evaluated, so it blocks: Spark stopped with CAST_INVALID_INPUT"
    )
    assert "SECRET" not in closing.observed
    assert measure.calls == 4, "all together, then each by itself"


def test_a_file_that_cannot_be_read_is_not_read_again_for_every_check():
    calls = []

    def measure(scope, figures):
        calls.append(scope)
        raise SourceError("cannot read /logs/a.gz: cut off")

    found = gate(
        [rows(), not_null(column="a"), not_null(column="b", severity="warn")], measure=measure
    )
    assert len(closed(found)) == 3
    assert all("/logs/a.gz" in result.observed for result in found)
    assert calls == ["sample"]


def test_a_history_or_a_comparison_that_cannot_be_had_blocks():
    def denied(*_):
        raise OSError("runs: permission denied")

    kinds = ("size_vs_history", "duplicate_files", "no_bom")
    checks = [*(check(kind, severity="warn") for kind in kinds), files()]
    found = gate(checks, history=denied, duplicates=denied, marked=denied)
    assert closed(found) == found[:3]
    assert {result.observed for result in closed(found)} == {
        "could not be evaluated, so it blocks: runs: permission denied"
    }


def test_a_check_of_severity_quarantine_is_reported_and_never_closes_the_gate():
    (result,) = gate([not_null(column="a", severity="quarantine")], measure=Lines(3, good=1))
    assert (result.passed, result.severity) == (False, "quarantine")
    assert closed([result]) == []
    (result,) = gate([not_null(column="typo", severity="quarantine")], measure=Failing())
    assert closed([result]) == [result], "unless it cannot be evaluated"


@pytest.mark.parametrize("value", [-1, 2**53 - 1, 0.1 + 0.2, 1e-12])
def test_great_expectations_compares_as_python_does(value):
    """Nothing else stands beside its verdict, so this holds it to the very bounds, as the verdict
    on counts is held. It compares doubles: exact to 2^53, nine petabytes."""
    near = [
        value,
        value + 1,
        value - 1,
        *((value - 2**-40, value + 2**-40) if isinstance(value, float) else ()),
    ]
    bounds = [
        figures.Bound(value, low, high)
        for low in (None, *near)
        for high in (None, *near)
        if low is not None or high is not None
    ]
    checks = [
        figures.Unjudged(kind, "?", figures.CheckFigures((bound,), "?"))
        for bound in bounds
        if _is_sound(bound)
        for kind in (not_null(column="c"), files())
    ]
    expected = [check.observed.bounds[0].holds for check in checks]
    assert [result.passed for result in judged(checks)] == expected


def test_a_figure_that_great_expectations_cannot_tell_from_its_neighbour_blocks():
    bound = figures.Bound(2**53, max=2**53 + 1)
    observed = figures.CheckFigures((bound,), "?")
    result, count = judged(
        [
            figures.Unjudged(not_null(column="c", severity="warn"), "?", observed),
            figures.Unjudged(check("total_bytes", min="1B"), "?", observed),
        ]
    )
    assert closed([result]) == [result]
    assert "not below 9,007,199,254,740,992" in result.observed
    assert count.passed, "of any size"


def _is_sound(bound):
    return bound.min is None or bound.max is None or bound.min <= bound.max


def test_a_check_that_does_not_hold_says_in_which_files():
    asked = []

    def where(scope, conditions):
        asked.append((scope, conditions))
        return {
            name: [("/logs/b.log", 3), ("/logs/a.log", 1), ("/logs/c.log", 1), ("/logs/d.log", 1)]
            for name in conditions
        }

    checks = [check("not_null", column="a"), check("matches", column="value", regex="x")]
    figures = {"rows": 10, "0.good": 10, "1.good": 4}
    found = gate(checks, measure=lambda scope, wanted: {n: figures[n] for n in wanted}, where=where)
    assert [result.passed for result in found] == [True, False]
    assert "most in" not in found[0].observed
    assert found[1].observed.endswith(
        "; most in /logs/b.log (3), /logs/a.log (1), /logs/c.log (1) and 1 more"
    )
    [(scope, conditions)] = asked
    assert (scope, list(conditions)) == ("sample", ["1"])


def test_where_the_faults_are_is_a_help_and_no_more():
    def where(scope, conditions):
        raise RuntimeError("SECRET")

    found = gate(
        [check("not_null", column="a")],
        measure=lambda scope, wanted: {"rows": 10, "0.good": 4},
        where=where,
    )
    assert found[0].observed.startswith("6 of 10 rows null")

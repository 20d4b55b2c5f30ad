"""What is asked of one run alone: what can be meant, what the pipeline is then, and what the report
says of it."""

import datetime as dt
import io
import json
import sys
import tempfile

import pytest
import typer

from shipper.cli import main
from shipper.cli.run_options import answered, flag_of
from shipper.config.pipeline import Pipeline
from shipper.errors import UsageError
from shipper.gate_question import LEAVE, SHIP_ANYWAY, SKIP_FAILED, failed_checks, skips_for
from shipper.report.page import render
from shipper.report.plan_result import PlanResult
from shipper.report.results import GateResult, RunReport
from shipper.report.run_view import run_view
from shipper.request import FORM, RunRequest, apply_request, contradiction, skippable
from shipper.runner import PLAN, Job, run_job
from shipper.windows.window import Window
from tests.samples import reports as samples
from tests.samples.results import NOON, checked, common


def pipeline(**changes):
    checks = [
        {"check": "files"},
        {"check": "rows", "min": 5},
        {"check": "not_null", "column": "value"},
        {"check": "matches", "regex": "x", "severity": "quarantine"},
    ]
    spec = {
        "pipeline": "web",
        "source": "logs/",
        "topic": "t",
        "clusters": ["near", "far"],
        "quarantine": {"topic": "q"},
        "gates": {"source": checks},
    }
    return Pipeline.model_validate(spec | changes)


def asked(**options):
    return RunRequest(**options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"clusters": ("nera",)}, "has no cluster 'nera'; did you mean 'near'? allowed: near, far"),
        ({"skip_checks": ("sum_closes",), "skip_reason": "x"}, "files, rows"),
        (
            {"skip_checks": ("matches(value)",), "skip_reason": "x"},
            "has no check that can be skipped",
        ),
        ({"skip_checks": ("rows",), "skip_reason": " "}, "Give it in `skip_reason`"),
        ({"skip_reason": "because"}, "no check is skipped"),
        ({"reship_reason": "because"}, "`reship` is off"),
        ({"reship": True}, "Give the reason in `reship_reason`"),
        ({"reship": True, "reship_reason": "  "}, "Give the reason in `reship_reason`"),
        ({"rate_limit": "5MB"}, "'5MB': a rate has a unit"),
        ({"rate_limit": "0B/s"}, "never ends"),
        ({"plan_only": True, "rate_limit": "5MB/s"}, "`rate_limit` has no effect"),
        (
            {"plan_only": True, "skip_checks": ("rows",), "skip_reason": "x"},
            "`skip_checks` has no effect",
        ),
    ],
)
def test_what_nobody_can_have_meant_is_one_sentence(options, says):
    said = contradiction(asked(**options), pipeline())
    assert said is not None
    assert says in said
    assert "\n" not in said


def test_what_can_be_meant_is_no_contradiction():
    both = asked(
        clusters=("far",),
        rate_limit="5MB/s",
        skip_checks=("rows", "not_null(value)"),
        skip_reason="a short hour",
    )
    assert contradiction(both, pipeline()) is None
    assert contradiction(asked(plan_only=True, clusters=("far",), reship=True), pipeline()) is None
    assert contradiction(asked(), pipeline()) is None


def test_a_check_that_sends_records_to_quarantine_is_the_same_in_every_run():
    assert skippable(pipeline()) == ["files", "rows", "not_null(value)", "closed_delivery_gate"]
    without, _ = apply_request(
        pipeline(), asked(skip_checks=("rows", "files", "not_null(value)"), skip_reason="x")
    )
    assert [check.title for check in without.gates.source] == ["matches(value)"]
    assert without.gates.delivery == pipeline().gates.delivery


@pytest.mark.parametrize(
    ("own", "limit"), [(None, 5_000_000), ("1MB/s", 1_000_000), ("9MB/s", 5_000_000)]
)
def test_a_cap_of_the_run_loosens_no_limit_of_the_pipeline(own, limit):
    before = pipeline(delivery={"rate_limit": own} if own else {})
    capped, _ = apply_request(before, asked(rate_limit="5MB/s", clusters=("far",)))
    assert capped.delivery.rate_limit == limit
    assert capped.clusters == ("far",)
    assert capped.transform_digest() == before.transform_digest()


def with_asked(report, **said):
    return report.model_copy(update={"asked": RunRequest(**said)})


def test_a_run_for_one_cluster_claims_nothing_of_the_others():
    report = with_asked(samples.shipped(), clusters=["frankfurt"], other_clusters=["singapore"])
    assert run_view(report).headline.endswith("to frankfurt; singapore was left out, as asked")
    assert "What singapore may lack is still missing." in render(report)


def test_a_dry_run_says_what_is_left_and_does_not_miss_the_steps_that_send():
    left = samples.plan(files=3, there=0)
    report = RunReport(
        **samples.shipped().model_dump(
            exclude={"plan", "gate_source", "ships", "delivery_gates", "asked"}
        ),
        plan=left,
        asked=RunRequest(plan_only=True),
    )
    ending = run_view(report)
    assert ending.headline == "Dry run: nothing was sent; frankfurt lacks 3 files"
    assert ending.state == "nothing"
    assert ending.doubts == ()
    told = run_view(report)
    assert (told.event, told.clusters[0].line.startswith("frankfurt: 3 files left")) == (
        "success",
        True,
    )
    assert "no result" not in render(report)


def test_a_field_with_a_title_is_an_option_of_run():
    command = typer.main.get_command(main.app).commands["run"]
    options = {option for each in command.params for option in each.opts}
    assert {flag_of(name) for name in FORM} <= options


def test_a_jobs_temporary_folder_goes_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    window = Window(
        dt.datetime(2026, 11, 1, tzinfo=dt.UTC), dt.datetime(2026, 11, 2, tzinfo=dt.UTC)
    )
    whole = asked(clusters=("far",), rate_limit="5MB/s", files=("/a b",), scheduled=True)
    job = Job(pipeline(), tmp_path / "none", window, "r", (PLAN,), whole)
    assert (run_job(job), list(tmp_path.iterdir())) == (UsageError.exit_code, [])
    job.pipeline = pipeline(runner={"python": "/no/python"})
    with pytest.raises(UsageError) as refused:
        job.start()
    assert (refused.value.code, list(tmp_path.iterdir())) == ("SHIP-804", [])
    job.pipeline = pipeline(runner={"python": "false"})
    assert (run_job(job), list(tmp_path.iterdir())) == (1, [])


def test_a_result_of_an_earlier_release_is_read():
    old = samples.shipped().model_dump(mode="json")
    old["asked"] = {"clusters": ["near"], "rate_limit": "", "skipped_checks": ["rows"]}
    read = RunReport.model_validate_json(json.dumps(old)).asked
    assert read == RunRequest(clusters=("near",), rate_limit="", skip_checks=("rows",))
    assert RunReport.model_validate_json(json.dumps(old | {"asked": None})).asked == RunRequest()


def test_the_answer_to_a_closed_gate_skips_what_it_says_and_never_a_quarantine():
    spec = pipeline()
    failed = ["rows"]
    assert skips_for(LEAVE, failed, spec) == ()
    assert skips_for(SKIP_FAILED, failed, spec) == ("rows",)
    assert skips_for(SHIP_ANYWAY, failed, spec) == ("files", "rows", "not_null(value)")
    of_run = common() | {"status": "failed"}
    for name, may in (("rows", ["rows"]), ("gate", [])):
        check = checked(name, False, "5", "1")
        assert failed_checks(GateResult(step="gate_source", checks=[check], **of_run), spec) == may


def test_the_terminal_asks_and_runs_again_with_the_answer(monkeypatch, tmp_path):
    check = checked("rows", False, "5", "1")
    of_run = common() | {"status": "failed"}
    gate = GateResult(step="gate_source", checks=[check], **of_run)
    report = RunReport(plan=PlanResult(**of_run), gate_source=gate, **of_run)
    gates = {"source": [{"check": "rows", "min": 5}], "on_closed": "ask"}
    spec = pipeline(gates=gates, runs_uri=str(tmp_path))
    job = Job(spec, tmp_path, NOON, "r", ())
    monkeypatch.setattr("sys.stdin", io.StringIO("2\na drill\n"))
    assert answered(job, report) is None, "no terminal"
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda *_: sys.stdin.readline().strip())
    again = answered(job, report) or pytest.fail("it was answered")
    assert again.request.skip_checks == ("rows",)
    assert (again.request.skip_reason or "").startswith("Skip the failed checks: a drill (")
    assert again.run_id != "r"

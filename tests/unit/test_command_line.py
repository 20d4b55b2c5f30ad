"""The command line from outside: what it prints where, how it ends, and that text of others does
nothing to a terminal."""

import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest

from shipper.cli.console import Terminal, table
from shipper.cli.run_options import new_job
from shipper.cli.show import show_cause, show_plan, show_run
from shipper.errors import UsageError
from shipper.report.message import details
from shipper.report.plan_result import ClusterPlan, LeftOut, PlannedFile, PlanResult
from shipper.report.results import Coverage, DeliveryGateResult, RunReport
from shipper.report.run_folder import RunFolder
from shipper.report.run_view import run_view
from shipper.request import RunRequest
from shipper.windows.window import Window
from tests.samples import reports as samples
from tests.samples.config import write_config
from tests.samples.results import NOON, common

TIMES = common()
HOSTILE = "/logs/[bold]x[/b][/].log\x1b]52;c;aGk=\x07\u202egol\x9b31m"


@pytest.fixture
def config(tmp_path):
    web = "pipeline: web\nsource: logs\ntopic: t\nclusters: [near]\n"
    near = "cluster: near\nbootstrap: 127.0.0.1:9092\n"
    return write_config(tmp_path / "etc", {"pipelines/web": web, "clusters/near": near})


def test_one_pipeline_can_be_validated_and_config_comes_from_the_environment_too(config, shipper):
    (config / "pipelines" / "other.yaml").write_text("pipeline: other\nsorce: x\n")
    done = shipper("validate", "web", "--no-sql", SHIPPER_CONFIG=str(config))
    assert (done.returncode, done.stdout) == (
        0,
        "✓ 1 pipeline and 1 cluster are right (SQL expressions were not analysed).\n",
    )
    missing = shipper("validate", "nosuch", "--no-sql", "--config", str(config))
    assert missing.returncode == 2
    assert "nosuch" in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", "--json"), "Missing argument"),
        (
            ("run", "web", "--window", "2026-11-01/2026-11-02", "--reship", "--json"),
            "Give the reason in `--reason`",
        ),
        (("run", "web", "--json"), "no window was given. Give --window START/END, or --last"),
        (("plan", "web", "--last", "--json"), "has no `schedule`"),
        (
            ("gates", "web", "--last", "--window", "2026-11-01/2026-11-02", "--json"),
            "contradict each other",
        ),
        (("run", "nosuch", "--window", "2026-11-01/2026-11-02", "--json"), "nosuch"),
        (("plan", "web", "--window", "never", "--json"), "is not a window"),
    ],
)
def test_who_asks_for_json_gets_json_also_when_it_is_an_error(config, arguments, says, shipper):
    done = shipper(*arguments, SHIPPER_CONFIG=str(config))
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert says in document["error"]
    assert document["exit_code"] == 2


def test_the_last_window_is_the_latest_whose_files_have_settled(config):
    text = (
        "pipeline: web\nschedule: '*/10 * * * *'\nsource: {path: logs, settle: 25m}\ntopic: "
        "t\nclusters: [near]\n"
    )
    (config / "pipelines" / "web.yaml").write_text(text)
    job = new_job("web", None, config, (), RunRequest(), last=True)
    age = dt.datetime.now(dt.UTC) - job.window.end
    assert job.window.end - job.window.start == dt.timedelta(minutes=10)
    assert dt.timedelta(minutes=25) <= age <= dt.timedelta(minutes=36)


def test_pipelines_are_listed_with_what_is_there(config, shipper):
    end = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
    window = Window(end - dt.timedelta(hours=1), end)
    seen = Coverage(start=window.start, end=end)
    gate = DeliveryGateResult(cluster="near", coverage=seen, **common(window))
    RunFolder(str(config.parent / "runs"), "web", window, "r").write("gate_delivery.near", gate)
    done = shipper("list", "--json", "--config", str(config))
    [found] = json.loads(done.stdout)["pipelines"]
    assert (done.returncode, found["pipeline"], found["clusters"]) == (
        0,
        "web",
        {"near": "2026-11-01T06:00:00+00:00"},
    )
    assert "near: 2026-11-01T06:00Z" in shipper("list", "--config", str(config)).stdout
    (config / "pipelines" / "sad.yaml").write_text("pipeline: sad\n")
    done = shipper("list", "--config", str(config))
    assert (done.returncode, "sad.yaml" in done.stderr, "web" in done.stdout) == (2, True, True)


def test_validate_counts_as_right_only_what_has_no_fault(config, shipper):
    (config / "pipelines" / "bad.yaml").write_text(
        "pipeline: bad\nsource: logs\ntopic: t\nclusters: [near]\nlimts: {}\n"
    )
    (config / "clusters" / "far.yaml").write_text(
        "cluster: far\nbootstrap: 127.0.0.1:9092\nproperties: {socket.timeout.ms: -1}\n"
    )
    done = shipper("validate", "--json", "--no-sql", "--config", str(config))
    found = json.loads(done.stdout)
    assert done.returncode == 2
    assert {Path(place["file"]).stem for place in found["places"]} == {"bad", "far"}
    assert (found["pipelines"], found["clusters"]) == (["web"], ["near"])


def test_a_broken_cluster_is_one_fault_and_its_pipelines_are_named(config, shipper):
    (config / "clusters" / "near.yaml").write_text("cluster: near\nbootstrap: no-port\n")
    done = shipper("validate", "--json", "--no-sql", "--config", str(config))
    found = json.loads(done.stdout)
    assert done.returncode == 2
    assert [Path(place["file"]).name for place in found["places"]] == ["near.yaml"]
    assert found["pipelines"] == []
    said = shipper("validate", "--no-sql", "--config", str(config)).stderr
    assert "pipelines are broken too: web." in said
    assert "1 fault. 0 pipelines" in said
    alone = shipper("validate", "web", "--json", "--no-sql", "--config", str(config))
    [place] = json.loads(alone.stdout)["places"]
    assert Path(place["file"]).name == "web.yaml", "who asks about a pipeline hears of its cluster"


def test_faults_of_the_tests_of_a_configuration_are_faults(config, shipper):
    (config / "tests").mkdir()
    (config / "tests" / "web.yaml").write_text(
        "cases:\n  a: {lines: x, expect: [{dropped: health}]}\n"
    )
    (config / "tests" / "wep.yaml").write_text("cases: {a: {lines: x, expect: [{}]}}\n")
    (config / "tests" / "other.yml").write_text("")
    done = shipper("validate", "--json", "--no-sql", "--config", str(config))
    places = json.loads(done.stdout)["places"]
    assert done.returncode == 2
    assert {(Path(place["file"]).name, place["line"], place["path"]) for place in places} == {
        ("web.yaml", 2, "cases.a.expect[0].dropped"),
        ("wep.yaml", None, ""),
        ("other.yml", None, ""),
    }
    alone = shipper("validate", "web", "--json", "--no-sql", "--config", str(config))
    assert len(json.loads(alone.stdout)["places"]) == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_output_without_our_characters_gets_others(config, encoding, shipper):
    done = shipper("validate", "--no-sql", "--config", str(config), encoding=encoding)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ok 1 pipeline")


def test_a_full_output_device_is_said_in_a_line(config):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "shipper", "validate", "--no-sql", "--config", str(config)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "standard output: No space left on device [SHIP-104]\n"


def test_a_folder_for_runs_that_cannot_be_used_is_known_before_anything_runs(
    config, tmp_path, shipper
):
    (tmp_path / "file").write_text("")
    for uri, says in (
        ("nosuch://x/runs", "Protocol not known: nosuch"),
        (str(tmp_path / "file"), "Not a directory"),
    ):
        with (config / "pipelines" / "web.yaml").open("w") as file:
            file.write(
                f"pipeline: web\nsource: logs\ntopic: t\nclusters: [near]\nruns_uri: {uri}\n"
            )
        done = shipper("run", "web", "--window", "2026-11-01/2026-11-02", "--config", str(config))
        assert done.returncode == 1
        assert says in done.stderr
        assert "SHIP-005" in done.stderr
        assert "Traceback" not in done.stderr


class Away(fsspec.AbstractFileSystem):
    """An object store that does not answer, with errors of its own as botocore has them."""

    protocol = "away"

    def ls(self, *_, **__):
        raise LookupError("Could not connect")

    cat_file = pipe_file = makedirs = ls


@pytest.mark.parametrize("scheme", ["away", "nosuch"])
@pytest.mark.parametrize(
    "command",
    [
        "run web --window 2026-11-01",
        "gaps web",
        "gaps web --accept 2026-11-01 --reason r",
        "replay web --id x",
        "list",
    ],
)
def test_a_storage_that_cannot_be_reached_ends_no_command_with_a_stack(
    config, shipper, command, scheme
):
    fsspec.register_implementation("away", Away, clobber=True)
    (config / "pipelines" / "web.yaml").write_text(
        "pipeline: web\nsource: logs\ntopic: t\nclusters: [near]\n"
        f"schedule: {{cron: '@daily', start: 2026-11-01}}\nruns_uri: {scheme}://runs\n"
    )
    done = shipper(*command.split(), "--config", str(config))
    assert done.returncode == 1
    assert "Could not connect" in done.stderr or "not known: nosuch" in done.stderr
    assert command == "list" or "SHIP-005" in done.stderr


@pytest.mark.parametrize(
    "more", ["--since 7d", "--window 2026-11-01", "--alert", "--metrics-file gaps.prom"]
)
def test_accepting_windows_does_not_pass_over_an_option_that_asks_for_gaps(
    config, tmp_path, shipper, more
):
    (config / "pipelines" / "web.yaml").write_text(
        "pipeline: web\nsource: logs\ntopic: t\nclusters: [near]\n"
        f"schedule: {{cron: '@daily', start: 2026-11-01}}\nruns_uri: {tmp_path / 'runs'}\n"
    )
    accept = ["gaps", "web", "--accept", "2026-11-01", "--reason", "r", "--config", str(config)]
    done = shipper(*accept, *more.split())
    assert (done.returncode, "SHIP-102" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "runs").exists()
    assert shipper(*accept).returncode == 0


def test_a_file_name_does_nothing_to_a_terminal(capsys):
    file = PlannedFile(path=HOSTILE, uri="file:/x", size_bytes=1, modified_ms=0, splits=1)
    show_plan(
        PlanResult(**TIMES, source=HOSTILE, files=[file], clusters=[ClusterPlan(cluster="near")])
    )
    said = capsys.readouterr().out
    assert said.count(r"/logs/[bold]x[/b][/].log\x1b]52;c;aGk=\x07\u202egol\x9b31m") == 2
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said)


@pytest.mark.parametrize("width", [60, 200])
def test_a_narrow_terminal_shows_everything(width, capsys):
    out = Terminal()
    out.width = width
    window, run = "2026-11-01T06:00:00Z/2026-11-01T07:00:00Z", "20261121T113000-3f9a1c"
    shown = table(
        "window", ">files", ">complete", ">records", ">bytes", ">chunks", ">archived", "last run"
    )
    shown.add_row(window, "12", "11", "1,234,567", "1.2 GB", "99", "0", run)
    out.show(shown)
    said = capsys.readouterr().out
    assert all(cell in said for cell in (window, "12", "11", "1,234,567", "1.2 GB", "99", run)), (
        said
    )
    assert "…" not in said


@pytest.mark.parametrize(
    "sample", [samples.gate_closed, samples.shipped], ids=lambda one: one.__name__
)
def test_the_terminal_has_the_verdict_of_the_page(sample, capsys):
    report = sample()
    show_run(report)
    assert run_view(report).headline in capsys.readouterr().out


def test_a_run_that_leaves_files_out_names_them_and_ends_as_a_warning(capsys):
    waits = LeftOut(path="/logs/a.log", reason="may still be written", warns=True)
    links = LeftOut(path="/logs/b.log", reason="leads nowhere", warns=True, count=3)
    unwanted = LeftOut(path="/logs/a.zip", reason="does not match include")
    plan = PlanResult(**TIMES, source="/logs", left_out=[unwanted, waits, links])
    for line, row in zip(details(plan), (waits, links, unwanted), strict=True):
        assert str(row) in line
    run = RunReport(**TIMES, plan=plan)
    assert run_view(run).event == "warning"
    for show in (show_run, show_cause):
        show(run)
        said = " ".join(capsys.readouterr().err.split())
        assert "WARNING" in said
        for row in (waits, links):
            assert str(row) in said
        assert unwanted.path not in said
    show_cause(RunReport(**TIMES, plan=PlanResult(**TIMES, source="/logs", left_out=[unwanted])))
    assert waits.path not in capsys.readouterr().err


@pytest.mark.parametrize("run_id", ["../../etc", "a/b", "", ".", "..", "a..b", "x\n"])
def test_a_run_id_cannot_leave_the_folder_of_runs(run_id):
    with pytest.raises(UsageError, match="is not a valid run id"):
        RunFolder("/runs", "web", NOON, run_id)


def test_a_run_waits_for_no_module_that_only_other_commands_need():
    """Each command line pays for what it imports; with all of them it was half a CPU second
    more."""
    code = "import sys, shipper.cli.main; print(*sys.modules, sep='\\n')"
    imported = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    for name in (
        "confluent_kafka",
        "fsspec.implementations.local",
        "pyarrow",
        "shipper_tools.bench",
        "shipper_tools.dev.kafka",
        "shipper.driver",
        "shipper.worker",
    ):
        assert name not in imported, name


def test_ctrl_c_ends_a_command_that_is_being_imported_without_a_stack(tmp_path):
    interrupted = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)\n"
    (tmp_path / "typer.py").write_text(interrupted)
    done = subprocess.run(
        [sys.executable, "-m", "shipper", "--version"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # not ignored, as by `&`
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_whose_streams_are_closed_ends_as_ever(tmp_path, closed):
    command = f'"{sys.executable}" -m shipper schema --check --config "{tmp_path}" {closed}'
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)


def test_a_command_that_is_imported_late_is_listed_and_suggested(shipper):
    listed = shipper("--help").stdout
    for name in ("ledger", "quarantine", "gaps", "dags", "bench", "dev", "demo"):
        assert f" {name} " in listed
    wrong = shipper("legder")
    assert wrong.returncode == 2
    assert "Did you mean 'ledger'" in wrong.stderr


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("dev up kafak", "did you mean 'kafka'"),
        ("bench cold --rounds three", "'three' is not a whole number"),
        ("bench cold --rounds 0", "0 is not at least 1"),
        ("bench cold --seconds long", "'long' is not a number"),
        ("run", "`shipper run --help`"),
        ("run web --zzz", "`shipper run --help`"),
        ("lsit", "'list'"),
        ("ledger show web near", "`shipper ledger show --help`"),
        ("preview web", "has no `schedule`"),
        ("list --config nowhere", "`shipper new`"),
        ("validate --config nowhere", "`shipper new`"),
        ("new mine --sample nope.log", "nope.log: no such file"),
    ],
)
def test_a_wrong_command_line_ends_with_a_code_and_names_what_is_wrong(
    words, names, config, shipper
):
    done = shipper(*words.split(), SHIPPER_CONFIG=str(config))
    assert (done.returncode, done.stdout) == (2, "")
    said = " ".join(done.stderr.split())
    assert re.search(r"\[SHIP-[12]\d\d\]$", said)
    assert names in said
    for of_a_library in ("Value error", "Input should", "Errno", "--last"):
        assert of_a_library not in said


@pytest.mark.parametrize("folder", ["nowhere", "empty"])
def test_a_configuration_that_is_not_there_has_a_code_of_its_own(folder, tmp_path, shipper):
    (tmp_path / "empty").mkdir()
    for command in ("list", "validate"):
        done = shipper(command, "--config", str(tmp_path / folder))
        assert (done.returncode, done.stderr.rstrip()[-10:]) == (2, "[SHIP-203]")


def test_a_reader_that_has_gone_is_no_failed_run(config):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "shipper", "list", "--config", str(config)]
    with os.fdopen(writer) as gone:
        assert subprocess.run(command, stdout=gone).returncode == 141


def test_a_level_of_the_log_that_is_none_is_refused(config, shipper):
    done = shipper("list", "--json", "--config", str(config), SHIPPER_LOG="loud")
    assert (done.returncode, json.loads(done.stdout)["code"]) == (2, "SHIP-101")
    assert shipper("list", "--config", str(config), SHIPPER_LOG="Info").returncode == 0

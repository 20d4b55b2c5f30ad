"""examples/monitoring against what runs really send by StatsD: every name and label that the
dashboard and the alerts ask for, and what an alert says of a run that went wrong. promtool and
statsd_exporter are asked where they are installed."""

import datetime as dt
import json
import re
import shutil
import socket
import subprocess
import urllib.request
from dataclasses import dataclass

import pytest
from dag_world import bag_of
from ruamel.yaml import YAML
from shipper_tools.dev.ports import free_port
from statsd_receiver import EXAMPLE, statsd_receiver

from shipper.report.incomplete import beginnings
from shipper.report.metrics import MetricsFile, metrics_of_run
from shipper.report.results import RunReport
from shipper.windows.window import Window
from tests.waiting import wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow")]

SIX = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
_exporter = pytest.mark.skipif(
    shutil.which("statsd_exporter") is None, reason="statsd_exporter is not installed"
)


@dataclass
class Sent:
    """What two runs sent: one that was well, and one whose delivery gate to `near` closed."""

    lines: list[str]
    good: dict[str, float]
    bad: dict[str, float]
    """With the good run's counters."""


@pytest.fixture
def sent(config, spark, monkeypatch):
    """Sent by Airflow's own client, set up as a task's process does it."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

    config.pipeline("web")
    spark.script(report=["gather"])
    beginnings(
        str(config.folder.parent / "runs"),
        "web",
        ["near", "far"],
        Window(SIX - dt.timedelta(hours=1), SIX),
        None,
        began=SIX,
    )
    with statsd_receiver() as received:
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(received.port))
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
        stats.initialize(factory=get_stats_factory(), export_legacy_names=False)
        assert run(SIX).state == "success"
        good = settled(received)
        spark.script(report=["gather"], gate_delivery_near=["fail"])
        assert run(SIX + dt.timedelta(hours=1)).state == "failed"
        bad = settled(received)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "False")
        stats.initialize(factory=get_stats_factory(), export_legacy_names=False)
    return Sent(received.lines, good, bad)


def run(at):
    return bag_of().dags["web"].test(logical_date=at - dt.timedelta(hours=1), run_conf={})


def settled(received):
    """The series when a packet that was sent now has arrived."""
    mark = f"mark{len(received.lines)}:1|c"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(mark.encode(), ("127.0.0.1", received.port))
    wait_until(lambda: mark in received.lines)
    return received.series()


def name_of(series):
    return series.partition("{")[0]


def labels_of(series):
    return set(re.findall(r'(\w+)="', series))


def rules():
    [group] = YAML(typ="safe").load(EXAMPLE / "alerts.yml")["groups"]
    found = group["rules"]
    return found


def questions():
    """Each query of the dashboard and the alerts, with the labels that its legend or text names as
    `{{label}}`."""
    dashboard = json.loads((EXAMPLE / "dashboard.json").read_text())
    yield from (
        variable["query"]
        for variable in dashboard["templating"]["list"]
        if variable["type"] == "query"
    )
    for panel in dashboard["panels"]:
        yield from (f"{target['expr']} {target['legendFormat']}" for target in panel["targets"])
    for rule in rules():
        yield f"{rule['expr']} {' '.join(rule['annotations'].values())}"


def test_dashboard_and_alerts_ask_for_what_a_run_sends_and_a_textfile_has_it_too(
    sent, config, tmp_path
):
    asked = list(questions())
    assert len(asked) > 15
    for question in asked:
        names = set(re.findall(r"\bshipper_\w+", question))
        assert names, question
        assert names <= set(map(name_of, sent.good)), question
        has = set.intersection(
            *(set.union(*(labels_of(s) for s in sent.good if name_of(s) == name)) for name in names)
        )
        named = re.findall(r"(\w+)=~", question) + re.findall(
            r"\{\{ ?(?:\$labels\.)?(\w+)", question
        )
        named += re.findall(r", (\w+)\)$", question) if question.startswith("label_values") else []
        named += [
            label
            for group in re.findall(r"by \(([\w, ]+)\)", question)
            for label in group.split(", ")
        ]
        assert set(named) <= has, question
        counters = set(re.findall(r"(?:increase|rate)\((\w+)", question))
        assert all(name.endswith("_total") for name in counters), question
    assert len(rules()) == 5
    reports = sorted((config.folder.parent / "runs" / "web").glob("*/*/report.json"))
    path = tmp_path / "shipper.prom"
    for report in reports:
        MetricsFile(path).add(
            metrics_of_run(RunReport.model_validate_json(report.read_text()), SIX)
        )
    written = {
        line.split(" ")[0] for line in path.read_text().splitlines() if not line.startswith("#")
    }
    assert written == set(sent.bad)
    assert sent.bad['shipper_records_delivered_total{cluster="near",pipeline="web"}'] == 14
    assert (
        sent.bad['shipper_gates_closed_total{cluster="near",gate="delivery",pipeline="web"}'] == 1
    )


@_promtool
def test_the_alerts_do_what_their_tests_say():
    done = subprocess.run(
        ["promtool", "test", "rules", "alerts_test.yml"],
        cwd=EXAMPLE,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@_promtool
def test_a_gate_that_closed_is_the_only_alert_of_these_runs(sent, tmp_path):
    """The first run at 06:00 of some day, the second an hour later; the moments that are values
    count from there, since promtool's clock does."""
    moved = {
        s: (v - SIX.timestamp() if name_of(s) == "shipper_fresh_until" else v)
        for s, v in {**sent.good, **sent.bad}.items()
    }
    series = [
        {
            "series": s,
            "values": (
                f"{moved[s] if name_of(s) == 'shipper_fresh_until' else sent.good.get(s, 0)}x60 "
                f"{moved[s]}x20"
            ),
        }
        for s in sent.bad
    ]
    firing = {
        "labels": 'ALERTS{alertname="ShipperGateClosed", alertstate="firing", severity="critical", '
        'pipeline="web", cluster="near", gate="delivery"}',
        "value": 1,
    }
    test = {
        "rule_files": [str(EXAMPLE / "alerts.yml")],
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "promql_expr_test": [
                    {
                        "expr": 'count(ALERTS{alertstate="firing"}) or vector(0)',
                        "eval_time": "50m",
                        "exp_samples": [{"value": 0}],
                    },
                    {
                        "expr": 'ALERTS{alertstate="firing"}',
                        "eval_time": "70m",
                        "exp_samples": [firing],
                    },
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(json.dumps(test))
    done = subprocess.run(
        ["promtool", "test", "rules", str(tmp_path / "test.yml")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@_exporter
def test_statsd_exporter_makes_the_same_series_of_it(sent):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        listen = taken.getsockname()[1]
    page = f"127.0.0.1:{free_port()}"
    command = [
        "statsd_exporter",
        f"--statsd.mapping-config={EXAMPLE / 'statsd-mapping.yml'}",
        "--statsd.listen-tcp=",
        f"--statsd.listen-udp=127.0.0.1:{listen}",
        f"--web.listen-address={page}",
    ]

    def scraped():
        try:
            with urllib.request.urlopen(f"http://{page}/metrics", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return {}
        return {
            line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith("shipper_")
        }

    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as exporter:
        try:
            wait_until(lambda: socket_open(page))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                for line in sent.lines:
                    client.sendto(line.encode(), ("127.0.0.1", listen))
            wait_until(lambda: scraped() == sent.bad)
        finally:
            exporter.terminate()


def socket_open(address):
    host, _, port = address.partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True

"""`shipper dev up airflow`, as a person uses it: a page, a DAG for each pipeline that is saved, and
all of it there again the next day."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest
from shipper_tools.dev import servers, state
from shipper_tools.dev.airflow import SAVED_TO_DAG_SECONDS
from shipper_tools.dev.postgres import why_no_postgres

from tests.waiting import wait_until

pytestmark = [pytest.mark.airflow, pytest.mark.scheduler, pytest.mark.long]


@pytest.fixture
def home(tmp_path):
    """A home of the dev commands; what a failed test leaves running in it is stopped."""
    yield tmp_path / "dev"
    for server in servers.remembered(tmp_path / "dev"):
        server.stop(grace_seconds=5)


def dev(home, *arguments):
    environment = {**os.environ, "SHIPPER_DEV_HOME": str(home), "COLUMNS": "200"}
    command = [sys.executable, "-m", "shipper", "dev", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def up(home, config):
    """Returns the page's address."""
    done = dev(home, "up", "airflow", "--port", "0", "--config", str(config.folder), "--json")
    assert done.returncode == 0, done.stderr
    assert ("SQLite" in done.stderr) == (why_no_postgres() is not None), done.stderr
    return str(json.loads(done.stdout)["airflow"]["airflow"])


def ask(url, path, body=None):
    with urllib.request.urlopen(f"{url}/auth/token", timeout=300) as answer:
        token = json.loads(answer.read())["access_token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{url}/api/v2/{path}", json.dumps(body).encode() if body else None, headers
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.loads(answer.read())


def seconds_until(holds):
    started = time.monotonic()
    wait_until(holds, every_seconds=0.25)
    return time.monotonic() - started


def airflow(home, *arguments):
    """A person's own command: it knows where all is from `AIRFLOW_HOME` alone."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")
    }
    environment["AIRFLOW_HOME"] = str(home / "airflow")
    command = [str(Path(sys.executable).with_name("airflow")), *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def at_work_in(home):
    """Processes that were started from there, or work there."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(home) in " ".join(process.cmdline()) or process.cwd().startswith(str(home)):
                found.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            continue
    return found


def test_a_saved_pipeline_is_a_dag_within_seconds_and_all_is_there_again_after_down_and_up(
    home, config
):
    config.pipeline("web")
    began = time.monotonic()
    url = up(home, config)
    print(f"up in {time.monotonic() - began:.0f} s")
    seconds_until(lambda: [dag["dag_id"] for dag in ask(url, "dags")["dags"]] == ["web"])
    assert ask(url, "dags/web")["is_paused"]
    config.pipeline("app")
    added = seconds_until(lambda: "app" in [dag["dag_id"] for dag in ask(url, "dags")["dags"]])
    config.pipeline("web", more="description: what the web servers say\n")
    changed = seconds_until(
        lambda: ask(url, "dags/web")["description"] == "what the web servers say"
    )
    print(
        f"saved → DAG: {added:.1f} s, DAG changed: {changed:.1f} s; said are {SAVED_TO_DAG_SECONDS}"
    )

    status = dev(home, "status", "--json")
    assert (status.returncode, json.loads(status.stdout)["airflow"]["airflow"]) == (0, url)
    again = dev(home, "up", "airflow", "--config", str(config.folder))
    assert (again.returncode, "airflow runs already" in again.stderr, url in again.stdout) == (
        0,
        True,
        True,
    ), again
    other = dev(home, "up", "airflow", "--config", str(home))
    assert (other.returncode, f"with the configuration {config.folder}" in other.stderr) == (
        1,
        True,
    ), other

    kind = "postgresql" if why_no_postgres() is None else "sqlite"
    assert airflow(home, "config", "get-value", "database", "sql_alchemy_conn").startswith(kind)
    ask(
        url,
        "connections",
        {"connection_id": "kafka_prod", "conn_type": "generic", "password": "s3cret"},
    )
    down = dev(home, "down", "airflow")
    assert (down.returncode, at_work_in(home)) == (0, []), down
    up(home, config)
    (there,) = json.loads(airflow(home, "connections", "get", "kafka_prod", "-o", "json"))
    assert there["password"] == "s3cret", "encrypted with the key of the first start"
    assert dev(home, "down", "airflow", "--purge").returncode == 0
    assert (at_work_in(home), (home / "airflow").exists()) == ([], False)


def test_an_airflow_of_which_a_part_was_killed_is_seen_and_taken_down_whole(home, config):
    config.pipeline("web")
    up(home, config)
    for process in map(psutil.Process, [one.pid for one in state.load(home, "airflow").processes]):
        if "scheduler" in process.cmdline():
            process.kill()
    status = dev(home, "status")
    assert (status.returncode, "died" in status.stdout) == (1, True), status
    assert at_work_in(home)
    down = dev(home, "down", "airflow")
    assert (down.returncode, at_work_in(home)) == (0, []), down

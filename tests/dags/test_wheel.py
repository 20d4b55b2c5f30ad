"""The product is the wheel: installed into an empty environment, away from any clone, it ships by
its command line and by a DAG of a real scheduler, from a folder that Airflow may only read, as a
tool that follows a repository keeps it."""

import datetime as dt
import hashlib
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest
from drills import wait_for
from shipper_tools import release
from shipper_tools.dev.airflow import Airflow
from shipper_tools.dev.kafka import KafkaServer

from shipper.kafka.client import ClusterClient
from tests.integration.committed import read_committed
from tests.samples.config import cluster_of

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.scheduler,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.long,
]

ROOT = Path(__file__).resolve().parents[2]
VERSION = version("shipper")
PIPELINE = """\
pipeline: {name}
source: {{path: "{logs}/{{window_start:%H}}/", settle: 1s}}
topic: {topic}
clusters: [near]
runs_uri: {runs}
runner: {{driver_memory: 1g}}
"""
#: As in docs/how-to/your-own-dag.md: ships when the other pipeline's window is there.
OWN = """\
from airflow.sdk import DAG, PartitionedAssetTimetable
from shipper_airflow.operators import ShipOperator, delivered_asset

with DAG("copies", schedule=PartitionedAssetTimetable(assets=delivered_asset("web", "near"))):
    ShipOperator(task_id="ship", pipeline="copy")
"""


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    release.make(ROOT, folder, VERSION)
    return folder


@pytest.fixture(scope="module")
def installed(released, tmp_path_factory):
    """The Python of an environment that is made as docs/how-to/install-into-airflow.md says.

    The packages come first, by their addresses in uv.lock: uv has them in its cache since `make
    setup`. So the command of the page finds nothing to fetch. A mistake in what the wheel asks for,
    or in the constraints, would make it ask the index.
    """
    folder = tmp_path_factory.mktemp("installed")
    python = folder / "venv" / "bin" / "python"
    uv = release.uv(ROOT)
    locked, wheel = folder / "pylock.toml", released / f"shipper-{VERSION}-py3-none-any.whl"
    install = ["pip", "install", "--python", str(python)]
    extras = ["--no-emit-workspace", "--extra", "spark", "--extra", "airflow"]
    for words in (
        ["venv", "--python", sys.executable, str(python.parents[1])],
        [
            *("export", "--project", str(ROOT), "--locked", "--no-dev", *extras),
            *("--output-file", str(locked)),
        ],
        [*install, "--requirements", str(locked)],
        [*install, "--no-deps", str(wheel)],
        [
            *(*install, f"{wheel}[spark,airflow]"),
            *("--constraint", str(released / f"shipper-{VERSION}-constraints.txt")),
        ],
    ):
        subprocess.run([uv, *words, "--quiet"], cwd=folder, check=True)
    copy_bytecode(python)
    return python


def copy_bytecode(python):
    """Give the packages the bytecode that `make setup` made of the same files: else each part of
    Airflow compiles all of it when they start at once. Python takes no file that does not fit."""
    [ours, theirs] = (
        path / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        for path in (Path(sys.prefix), python.parents[1])
    )
    for file in ours.rglob("*.pyc"):
        target = theirs / file.relative_to(ours)
        if (target.parent.parent / f"{target.name.partition('.')[0]}.py").exists():
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, target)


def test_the_images_own_steps_install_the_wheel(installed, tmp_path):
    """As far as they go without Docker: what `docker/Dockerfile` copies and runs of shipper, in an
    environment that has the packages, in place of the image. Not run: the base image, apt, and who
    owns the files."""
    source, dist, root = tmp_path / "src", tmp_path / "dist", installed.parents[1]
    uv = release.uv(ROOT)
    text = (ROOT / "docker" / "Dockerfile").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith("COPY --chown="):
            *copied, into = line.split()[2:]
            for name in copied:
                target = source / into / Path(name).name if into.endswith("/") else source / into
                target.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, target)
    [build] = [line for line in text.splitlines() if line.startswith("RUN uv build")]
    [install] = [line for line in text.splitlines() if "shipper-*.whl" in line]
    environment = {
        **os.environ,
        "VIRTUAL_ENV": str(root),
        "PATH": os.pathsep.join([str(root / "bin"), str(Path(uv).parent), os.environ["PATH"]]),
    }
    for step, folder in ((build, source), (install, tmp_path)):
        here = step.removeprefix("RUN ").replace("/tmp/dist", str(dist))
        here = here.replace("/opt/shipper", str(tmp_path))
        here = here.replace("--no-cache --compile-bytecode", "")
        subprocess.run(["sh", "-ec", here], cwd=folder, env=environment, check=True)
    assert (tmp_path / "dags" / "shipper_dags.py").exists()
    said = subprocess.run(
        [installed, "-c", "import shipper_airflow.plugin as p; print(p.__file__)"],
        **{"cwd": tmp_path, "env": environment, "text": True, "check": True},
        capture_output=True,
    )
    assert Path(said.stdout.splitlines()[-1]).is_relative_to(root), "and not of the sources"
    only = subprocess.run(
        [uv, "pip", "sync", "--dry-run", dist / "requirements.txt"],
        **{"cwd": tmp_path, "env": environment, "text": True, "check": True},
        capture_output=True,
    )
    changes = [line for line in only.stderr.splitlines() if line[:3] in (" + ", " - ", " ~ ")]
    assert [line.split()[1] for line in changes] == [f"shipper=={VERSION}"], "all but the wheel"


def test_a_release_has_sums_and_says_what_it_is_made_of(released):
    sums = dict(
        reversed(line.split("  ")) for line in (released / "SHA256SUMS").read_text().splitlines()
    )
    made = {path for path in released.iterdir() if path.name != "SHA256SUMS"}
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made}
    assert {f"shipper-{VERSION}.tar.gz", f"shipper_tools-{VERSION}-py3-none-any.whl"} < sums.keys()
    parts = json.loads((released / f"shipper-{VERSION}.cdx.json").read_text())["components"]
    constraints = (released / f"shipper-{VERSION}-constraints.txt").read_text()
    for name in ("apache-airflow", "confluent-kafka", "great-expectations", "pyspark"):
        [its] = [part["version"] for part in parts if part["name"] == name]
        assert f"{name}=={its}" in constraints


class Repository:
    """A link to the folder of one commit; another commit is another folder."""

    def __init__(self, folder):
        self.folder, self.link = folder, folder / "current"
        self.committed = {}
        """Commit's folder → its files."""

    def commit(self, name, files):
        """Make the folder ``name`` of the commit before and ``files``, and let the link lead to
        it."""
        made = self.folder / "commits" / name
        if self.link.exists():
            shutil.copytree(self.link, made, ignore=shutil.ignore_patterns("__pycache__"))
            self.allow(made, 0o755, 0o644)
        for path, text in files.items():
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            (made / path).write_text(text)
        self.allow(made, 0o555, 0o444)
        self.committed[made] = files_in(made)
        link = self.link.with_name("next")
        link.symlink_to(made)
        link.replace(self.link)

    @staticmethod
    def allow(folder, folders, files):
        for path in (folder, *folder.rglob("*")):
            path.chmod(folders if path.is_dir() else files)


@pytest.fixture
def kafka(tmp_path):
    with KafkaServer(tmp_path / "kafka", die_with_parent=True) as server:
        yield server


def test_the_wheel_ships_by_command_line_and_by_a_dag(installed, kafka, tmp_path):
    logs, runs = tmp_path / "logs", tmp_path / "runs"

    def pipeline(name, topic):
        return PIPELINE.format(name=name, topic=topic, logs=logs, runs=runs)

    for hour in (6, 7):
        (logs / f"{hour:02}").mkdir(parents=True)
        (logs / f"{hour:02}" / "a.log").write_text("".join(f"{hour} {n}\n" for n in range(500)))
    cluster = cluster_of("near", bootstrap=kafka.bootstrap)
    ClusterClient(cluster).create_topics({"logs": 2, "copies": 1})
    # Nothing of the environment that this test runs in, and a folder without a clone.
    environment = {
        "PATH": os.pathsep.join([str(installed.parent), "/usr/bin", "/bin"]),
        "HOME": str(tmp_path),
        "SHIPPER_CACHE": "/dev/null",  # it makes its class data for no other test
        **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
    }

    def shipper(*words):
        command = [str(installed.with_name("shipper")), *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    written = shipper("dags", "install", "new/dags", "--config", "new/config", "--json")
    assert written.returncode == 0, written.stderr
    dag_files = {
        f"dags/{path.name}": path.read_text() for path in (tmp_path / "new" / "dags").iterdir()
    }
    repository = Repository(tmp_path / "repository")
    repository.commit(
        "first",
        {
            **dag_files,
            "dags/own.py": OWN,
            "config/pipelines/web.yaml": pipeline("web", "logs"),
            "config/pipelines/copy.yaml": pipeline("copy", "copies") + "schedule: '@hourly'\n",
            "config/shipper.yaml": f"index: {tmp_path}/shipments.sqlite\n",
            "config/clusters/near.yaml": f"cluster: near\nbootstrap: {kafka.bootstrap}\n",
        },
    )
    missing = shipper("demo")
    assert (missing.returncode, "shipper_tools" in missing.stderr) == (2, True), missing.stderr

    settings = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(repository.link / "dags"),
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "3",
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3",
        **environment,
    }
    config = str(repository.link / "config")
    beside = ThreadPoolExecutor()
    by_hand = ("run", "web", "--config", config, "--window", hour_of(6), "--json")
    running = beside.submit(shipper, *by_hand)  # Airflow's start takes as long
    with beside, Airflow(tmp_path / "airflow", settings, python=installed) as airflow:
        shipped = running.result()
        assert shipped.returncode == 0, shipped.stderr
        providers = airflow.call("GET", "providers")["providers"]
        assert "shipper" in [provider["package_name"] for provider in providers]
        wait_for(airflow, lambda: dags(airflow) == ["copies", "copy", "web"])
        for name in ("web", "copies"):
            airflow.call("PATCH", f"dags/{name}", {"is_paused": False})
        start, end = hour_of(7).split("/")
        run = airflow.call(
            "POST",
            "dags/web/dagRuns",
            {"logical_date": None, "conf": {"window_start": start, "window_end": end}},
        )
        done = wait_for(airflow, lambda: ended(airflow, "web", run["dag_run_id"]))
        assert done["state"] == "success", airflow.home
        triggered = wait_for(airflow, lambda: ended(airflow, "copies"))
        assert (triggered["state"], triggered["run_type"]) == ("success", "asset_triggered")
        assert import_errors(airflow) == ""

        stale = dag_files["dags/shipper_faults.py"].replace('written_by="', 'written_by="0.0.')
        repository.commit(
            "second",
            {"config/pipelines/app.yaml": pipeline("app", "logs"), "dags/shipper_faults.py": stale},
        )
        wait_for(airflow, lambda: "app" in dags(airflow))
        wait_for(airflow, lambda: "SHIP-902" in import_errors(airflow))

    def values(topic, partitions):
        read = (read_committed(kafka.bootstrap, topic, part) for part in range(partitions))
        return sorted(value.decode() for part in read for value in part)

    assert values("logs", 2) == sorted(f"{hour} {n}" for hour in (6, 7) for n in range(500))
    assert values("copies", 1) == sorted(f"7 {n}" for n in range(500))
    for commit, files in repository.committed.items():
        assert files_in(commit) == files, "nothing is written beside them"


def files_in(folder):
    """Without Python's own, which it writes where it may; and root may everywhere."""
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if "__pycache__" not in name}


def hour_of(hour):
    start = dt.datetime(2026, 11, 1, hour, tzinfo=dt.UTC)
    return f"{start.isoformat()}/{(start + dt.timedelta(hours=1)).isoformat()}"


def dags(airflow):
    return sorted(dag["dag_id"] for dag in airflow.call("GET", "dags")["dags"])


def ended(airflow, dag_id, run_id=""):
    """Return the run, or the only one that the DAG has, if it is over."""
    runs = airflow.call("GET", f"dags/{dag_id}/dagRuns")["dag_runs"]
    found = [run for run in runs if run_id in ("", run["dag_run_id"])]
    return next((run for run in found if run["state"] in ("success", "failed")), None)


def import_errors(airflow):
    errors = airflow.call("GET", "importErrors")["import_errors"]
    return "\n".join(error["stack_trace"] for error in errors)

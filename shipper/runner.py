"""Start of the Spark side: one command line for Airflow, for ``shipper run`` and for a person at a
terminal.

Every step is an argument of the same entry point, ``python -m spark_jobs``. Airflow passes one step
per task, ``shipper run`` all of them, so that both run the same code. The Spark side may live in an
environment of its own (``runner.python``, ``runner.spark_submit``). What a run is asked for
(:class:`shipper.request.RunRequest`) goes there as a file.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from shipper import job_environment, runtime
from shipper.config.environment import GIVEN_VARIABLE
from shipper.config.load import load_platform, references
from shipper.config.pipeline import Pipeline
from shipper.config.rules import resolve_uri
from shipper.config.runner_options import Runner
from shipper.errors import UsageError
from shipper.processes import group_members, session_members
from shipper.request import RunRequest
from shipper.s3a import s3a_jars
from shipper.stopping import Stopped, child_environment
from shipper.windows.window import Window

#: The reader of lines, in Java: jvm/ has its sources.
READER_JAR = Path(__file__).resolve().parents[1] / "spark_jobs" / "jars" / "shipper-lines.jar"

#: Pseudo-step: reports what it finds, and does nothing. See spark_jobs/look.py.
LOOK = "look"
#: Pseudo-step: reports what becomes of samples of tests. See spark_jobs/read_samples.py.
SAMPLES = "samples"
#: Place of an executor's Python, from its working folder, when the job brings an archive: Spark
#: unpacks it there under this name.
_UNPACKED = "environment"
PLAN, GATE_SOURCE, SHIP = "plan", "gate_source", "ship"
GATE_DELIVERY, REPORT = "gate_delivery", "report"
#: Pseudo-step: shows what lines would become.
PREVIEW = "preview"
_MASTER_SECONDS = 5.0
#: Time in which a job may stop Spark, look into the ledger and release the lease.
GRACE_SECONDS = 30.0


def new_run_id() -> str:
    """Return an id that is sortable by time and unique: ``20261121T113000-3f9a1c``."""
    return f"{runtime.now():%Y%m%dT%H%M%S}-{runtime.token_hex(3)}"


def step_names(clusters: Sequence[str]) -> list[str]:
    """Return all steps of a run in order: ``plan``, ``gate_source``, then ``ship:CLUSTER``,
    ``gate_delivery:CLUSTER`` for each, ``report``."""
    per_cluster = [f"{step}:{cluster}" for cluster in clusters for step in (SHIP, GATE_DELIVERY)]
    return [PLAN, GATE_SOURCE, *per_cluster, REPORT]


def steps_of(pipeline: Pipeline, request: RunRequest) -> tuple[str, ...]:
    """Return the steps of a run of the whole pipeline with this request, in order."""
    every = step_names(list(pipeline.clusters))
    return tuple(step for step in every if why_skipped(step, request) is None)


def why_skipped(step: str, request: RunRequest) -> str | None:
    """Return why a run with this request skips the step; None: it does not."""
    name, _, cluster = step.partition(":")
    if name in (PLAN, REPORT):
        return None
    if request.plan_only:
        return "a dry run was asked for (`plan_only`): the run plans and reports, and sends nothing"
    if cluster and not request.is_for(cluster):
        return (
            f"this run ships only to {', '.join(request.clusters)} (`clusters`): {cluster} gets "
            "nothing from it"
        )
    return None


@dataclass
class Job:
    """Some steps of one run of one pipeline."""

    pipeline: Pipeline
    config_dir: Path
    window: Window
    run_id: str
    steps: tuple[str, ...]
    request: RunRequest = field(default_factory=RunRequest)
    _folder: Path | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def results_uri(self) -> str:
        """The folder of the run's pipeline's folder, resolved."""
        return self.request.results_uri(resolve_uri(self.config_dir, self.pipeline.runs_uri))

    def environment(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of the process that runs the steps: what every job needs, and what
        the files of the pipeline and its clusters refer to. ``given``: what their references to
        Airflow stand for."""
        found = references(self.config_dir, self.pipeline.name)
        referred = [
            GIVEN_VARIABLE if reference.kind == "airflow" else reference.name
            for reference in found
            if reference.kind != "file"
        ]
        also = (*referred, *load_platform(self.config_dir).environment)
        return environment(self.pipeline.runner, also) | (
            {GIVEN_VARIABLE: json.dumps(dict(given))} if given else {}
        )

    def start(
        self,
        *,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        given: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start the process that runs the steps, in a session of its own, so that stopping it stops
        the JVM and Spark's Python workers with it. Its temporary files, and its request, lie in a
        folder of its own. ``given`` as for :meth:`environment`. Raises UsageError if that is not
        possible. Call :meth:`clean_up` once the process is gone, or let :func:`started` do so."""
        environment = self.environment(given)
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="shipper-job-"))
            request = self._folder / "request.json"
            request.write_text(self.request.model_dump_json(exclude_defaults=True))
        except OSError as error:
            self.clean_up()
            raise UsageError(
                f"pipeline {self.pipeline.name}: the temporary folder cannot be written "
                f"({error.strerror}). Nothing was sent. Make room there, or set TMPDIR to another.",
                code="SHIP-804",
            ) from error
        try:
            return subprocess.Popen(
                self.command(request),
                env={**environment, "TMPDIR": str(self._folder)},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            self.clean_up()
            raise UsageError(
                f"pipeline {self.pipeline.name}: {error.filename} cannot be started "
                f"({error.strerror}). Nothing was sent. Correct `runner.python` or "
                "`runner.spark_submit`, or leave it out to use the environment that runs shipper.",
                code="SHIP-804",
            ) from error

    def clean_up(self) -> None:
        """Remove the process's temporary files: Java that is killed leaves its own."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def command(self, request: Path | None = None) -> list[str]:
        """Return the argv of the process that runs the steps. ``request``: the file with the run's
        request. Neither holds a secret: those are read from the config by the job itself."""
        runner = self.pipeline.runner
        window = f"{self.window.start.isoformat()}/{self.window.end.isoformat()}"
        arguments = ["--config", str(self.config_dir), "--pipeline", self.pipeline.name]
        arguments += ["--run-id", self.run_id, "--window", window]
        if request is not None:
            arguments += ["--request", str(request)]
        arguments += self.steps
        if runner.spark_submit is None:
            return [runner.python or sys.executable, "-m", "spark_jobs", *arguments]
        main = Path(__file__).resolve().parents[1] / "spark_jobs" / "__main__.py"
        more = s3a_jars(self.pipeline, _spark_home(runner.spark_submit))
        # Spark's driver has started when spark_jobs could say so.
        conf = {**runner.conf, **carried(runner, more)}
        options = ["--master", runner.spark_master, "--deploy-mode", "client"]
        options += ["--driver-memory", runner.driver_memory]
        options += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        return [runner.spark_submit, *options, str(main), *arguments]


def _spark_home(spark_submit: str) -> Path:
    return Path(shutil.which(spark_submit) or spark_submit).resolve().parents[1]


def carried(runner: Runner, more: Iterable[Path] = ()) -> dict[str, str]:
    """Return the settings by which Spark takes to the executors what tasks need: the reader's jar,
    ``more`` jars and, if there is one, the archive with their Python."""
    jars = [str(READER_JAR), *map(str, more), runner.conf.get("spark.jars")]
    found = {"spark.jars": ",".join(filter(None, jars))}
    if runner.archive is not None:
        archives = [f"{runner.archive}#{_UNPACKED}", runner.conf.get("spark.archives")]
        found["spark.archives"] = ",".join(filter(None, archives))
    return found


def why_no_pyspark() -> str | None:
    """Return why this Python cannot run jobs, with the remedy; None if it can."""
    if find_spec("pyspark") is not None:
        return None
    return (
        f"{sys.executable} has no pyspark, so it can start no Spark. Nothing was sent. Install the "
        "wheel with its extra `spark` there, or name another Python in `runner.python`."
    )


def why_no_spark(runner: Runner) -> str | None:
    """Return why jobs cannot run on the Spark cluster that ``runner`` names, with the remedy; None
    if nothing speaks against it."""
    archive = runner.archive or ""
    if archive.startswith("/") and not Path(archive).is_file():
        return (
            f"`runner.archive` {archive} does not exist. Pack it as "
            "docs/how-to/pack-an-environment.md shows, or correct the path"
        )
    if runner.kind != "standalone" or not runner.spark_master.startswith("spark://"):
        return None
    whys = []
    for address in runner.spark_master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _MASTER_SECONDS).close()
            return None
        except (OSError, ValueError) as error:
            whys.append(f"{address} ({getattr(error, 'strerror', None) or error})")
    return (
        f"no Spark master answers at {', '.join(whys)}. Start the standalone master there, or "
        "correct `runner.master` to the address that the master's page shows"
    )


def task_python(runner: Runner) -> str:
    """Return the Python of Spark's workers, as an executor finds it."""
    if runner.archive is not None:
        return f"./{_UNPACKED}/bin/python"
    return runner.python or sys.executable


def environment(runner: Runner, also: Iterable[str] = ()) -> dict[str, str]:
    """Return what a job needs of this process's environment (and ``also``), with Spark's Python set
    to the one that the runner names and the project importable."""
    python = runner.python or sys.executable
    root = Path(__file__).resolve().parents[1]
    # A checkout must be found from any working directory; an installed shipper is found anyway, and
    # its site-packages must not come before those of another environment.
    checkout = [str(root)] if (root / "pyproject.toml").exists() else []
    path = os.pathsep.join(p for p in (*checkout, os.environ.get("PYTHONPATH")) if p)
    pythons = {"PYSPARK_PYTHON": task_python(runner), "PYSPARK_DRIVER_PYTHON": python}
    ours = {**pythons, "PYTHONPATH": path, "GX_ANALYTICS_ENABLED": "false"}
    if runner.kind == "local":
        # Otherwise Spark looks its own host's name up, and complains about a loopback address.
        ours["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    return {**job_environment.here(also), **ours, **child_environment()}


def run_job(
    job: Job, *, stdout: int | IO[bytes] | None = None, stderr: int | IO[bytes] | None = None
) -> int:
    """Run the steps, wait, and return the exit code (see :mod:`shipper.errors`). The child's log
    goes to stderr.

    When this process is killed with -9, the child sees that and stops by itself. Raises Stopped
    once the child is gone.
    """
    runner = job.pipeline.runner
    if runner.python is None and runner.spark_submit is None and (why := why_no_pyspark()):
        raise UsageError(f"pipeline {job.pipeline.name}: {why}", code="SHIP-110")
    with started(job, stdout=stdout, stderr=stderr) as child:
        return exit_code(child.wait())


@contextlib.contextmanager
def started(
    job: Job, *, stdout: int | IO[bytes] | None = None, stderr: int | IO[bytes] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process that runs the steps. An error in the body, such as Stopped, stops it first,
    in good order. Raises UsageError as :meth:`Job.start`."""
    child = job.start(stdout=stdout, stderr=stderr)
    try:
        yield child
    except BaseException as error:
        signum = error.signum if isinstance(error, Stopped) else signal.SIGTERM
        stop_job(child, job.pipeline.runner, signum)
        raise
    finally:
        job.clean_up()


def exit_code(returned: int) -> int:
    """Return the exit code as shells have it: 128 + the signal that ended the process."""
    return 128 - returned if returned < 0 else returned


def how_it_ended(code: int) -> str:
    """Return ``ended with exit code 3``; for a signal, its most likely cause."""
    if code == 128 + signal.SIGKILL:
        return f"was killed (SIGKILL) {why_killed()},"
    if code > 128 and code - 128 in signal.valid_signals():
        return f"was ended by {signal.Signals(code - 128).name}"
    return f"ended with exit code {code}"


def oom_kills() -> int | None:
    """Return how many processes the kernel has killed since boot because memory ran out; None if it
    does not report that."""
    with contextlib.suppress(OSError, ValueError):
        counters = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(counters["oom_kill"]) if "oom_kill" in counters else None
    return None


_OOM_KILLS_BEFORE = oom_kills()


def may_lack_memory() -> bool:
    """Return False if the kernel is known to have killed nothing since this process began."""
    return None in (kills := oom_kills(), _OOM_KILLS_BEFORE) or kills != _OOM_KILLS_BEFORE


def why_killed() -> str:
    """Return the known facts on who killed a process that this one started."""
    if not may_lack_memory():
        return "by somebody or by a program, not by the kernel's out-of-memory killer"
    if _OOM_KILLS_BEFORE is None:
        return "by somebody, or by the kernel because memory ran out (the kernel's log shows it)"
    return (
        "while memory ran out: the kernel killed a process, most likely this one (lower "
        "`runner.cores` or `runner.driver_memory`)"
    )


def ask_to_stop(pid: int, runner: Runner, signum: int = signal.SIGTERM) -> None:
    """Ask the process that runs a job to stop. Alone, since it ends Spark in good order, and the
    JVM would not hear of that if it were asked too; but spark-submit is the JVM, and the one to ask
    is its child."""
    with contextlib.suppress(ProcessLookupError):
        (os.kill if runner.spark_submit is None else os.killpg)(pid, signum)


def stop_job(
    child: subprocess.Popen[Any],
    runner: Runner,
    signum: int = signal.SIGTERM,
    grace_seconds: float = GRACE_SECONDS,
) -> None:
    """Ask a job to stop; kill the rest of its session after the grace, or when only leftovers
    remain."""
    try:
        ask_to_stop(child.pid, runner, signum)
        _wait_for_group(child, grace_seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        for pid in session_members(child.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.wait(5.0)


def _wait_for_group(child: subprocess.Popen[Any], seconds: float) -> None:
    """Wait for the child, and then for the processes that it may have left: under spark-submit, the
    Python that knows the state of the ledger."""
    until = runtime.monotonic() + seconds
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(seconds)
        while group_members(child.pid) and runtime.monotonic() < until:
            runtime.sleep(0.05)

"""Checks of ``shipper doctor`` on this machine and its surroundings: Java, Spark, the source,
`runs_uri`, Airflow, disks."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shipper import runner, runtime
from shipper.cache import cache_folder
from shipper.config.pipeline import Pipeline
from shipper.config.rules import resolve_uri
from shipper.config.runner_options import Runner
from shipper.config.units import plural
from shipper.driver.checks.catalogue import Check, CheckTarget, skipped
from shipper.errors import JavaUnavailable, why_system
from shipper.finding import Finding, fail, ok, warn
from shipper.java import INSTALL, find_java
from shipper.whole_files import file_system, write_whole
from shipper.windows.ticks import Ticks
from shipper.windows.window import Window

_LITTLE_BYTES, _TOO_LITTLE_BYTES = 2 * 10**9, 10**8
_APART_SECONDS = 5.0
#: Asks Airflow in a process of its own: importing Airflow takes seconds, and starts what a command
#: must not have.
_ASK_AIRFLOW = """
import json, sys
from airflow.configuration import conf
from airflow.dag_processing.dagbag import BundleDagBag
folder = conf.get("core", "dags_folder")
bag = BundleDagBag(dag_folder=folder, bundle_path=folder, bundle_name="dags-folder")
tags = {name: sorted(dag.tags) for name, dag in bag.dags.items()}
try:
    from airflow.models import Pool
    there = {pool.pool for pool in Pool.get_pools()}
    missing = {name: sorted({task.pool for task in dag.tasks} - there) for name, dag in bag.dags.items()}
except Exception:
    missing = {}
# What is wrong in the configuration the DAGs' tags say, too.
errors = {k: v.strip().splitlines()[-1:] for k, v in bag.import_errors.items() if "BrokenConfigurationError" not in v}
print(json.dumps({"folder": folder, "errors": errors, "dags": tags, "pools_missing": missing}))
"""  # noqa: E501


def java(_: CheckTarget) -> Iterator[Finding]:
    """Check the Java that Spark would use: `JAVA_HOME`'s, else the one on the PATH."""
    try:
        found = find_java()
    except JavaUnavailable as error:
        yield fail(error.why)
    else:
        yield ok(f"{found.version} at {found.where}")


def _last_words(stderr: bytes) -> str:
    return (stderr.decode(errors="replace").strip().splitlines() or ["no output"])[-1]


def packages(_: CheckTarget) -> Iterator[Finding]:
    """Check the packages of this Python, without Java: enough for a machine that only plans, lists
    or schedules."""
    versions = {
        name: _version(name) for name in ("shipper", "confluent-kafka", "pyspark", "apache-airflow")
    }
    shown = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    lacks = "" if versions["pyspark"] else "; no pyspark: jobs need a `runner.python` that has it"
    yield ok(f"{sys.version.split()[0]}: {shown}{lacks}")
    if not runner.READER_JAR.exists():
        yield fail(
            f"{runner.READER_JAR} does not exist",
            "install shipper again, or run `python jvm/build.py` in a checkout",
            subject="jars",
        )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def latest_window(pipeline: Pipeline, now: dt.datetime) -> Window:
    """Return the latest window of the schedule that is over; without a schedule, the last 24 full
    hours."""
    if pipeline.schedule is None:
        end = now.replace(minute=0, second=0, microsecond=0)
        return Window(end - dt.timedelta(days=1), end)
    ticks = Ticks(pipeline.schedule)
    end = ticks.before(now)
    return Window(ticks.before(end), end)


def spark_and_source(here: CheckTarget) -> Iterator[Finding]:
    """Check Spark and the source in the process that would run the job: its Python, its Java, its
    jars, its credentials. Its JVM ends with it."""
    pipeline, limit_seconds = here.of, here.limit_seconds
    window = latest_window(pipeline, runtime.now())
    job = runner.Job(
        pipeline=pipeline,
        config_dir=here.config_dir,
        window=window,
        run_id="doctor",
        steps=(runner.LOOK,),
    )
    if why := runner.why_no_spark(pipeline.runner):
        yield fail(why, subject="Spark's cluster")
    try:
        with runner.started(job, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            stdout, stderr = child.communicate(timeout=limit_seconds)
    except subprocess.TimeoutExpired as slow:
        if found := _last_document(slow.stdout or b""):
            yield from _spark(found, pipeline.runner)
            yield from _source(found, pipeline, window)
            yield warn(
                f"no task has run on {pipeline.runner.spark_master} within {limit_seconds:g} s",
                "check that there are free cores and memory (`spark.executor.cores`, "
                "`spark.executor.memory`). The master's page and the executors' logs show why "
                "executors do not start. --limit allows more time",
                subject="executors",
            )
            return
        yield fail(
            f"Java, or the files of window {window}, took longer than {limit_seconds:g} s",
            "the file system does not answer, or the machine is overloaded; --limit allows more "
            "time",
        )
        return
    found = _last_document(stdout)
    if found is None:
        yield fail(
            f"{job.command()[0]} -m spark_jobs failed: {_last_words(stderr)}",
            "install shipper[spark] in the environment of `runner.python`",
        )
        return
    yield from _spark(found, pipeline.runner)
    yield from _executors(found, pipeline.runner)
    yield from _source(found, pipeline, window)


def _executors(found: Mapping[str, Any], its: Runner) -> Iterator[Finding]:
    if why := found.get("executor_error"):
        yield fail(str(why), "`-v` shows Spark's own messages", subject="executors")
    elif its.kind != "local" and (executors := found.get("executors")):
        count = plural(len(executors), "executor")
        hosts = ", ".join(sorted({one["host"] for one in executors}))
        if wrong := sorted({one["host"] for one in executors if not one["same_code"]}):
            yield fail(
                f"tasks on {', '.join(wrong)} have another version of shipper than the driver "
                f"({count} asked)",
                "pack `runner.archive` again, or install the driver's version there",
                subject="executors",
            )
        else:
            pythons = " and ".join(sorted({one["python"] for one in executors}))
            yield ok(
                f"tasks on {count} ({hosts}) ran shipper in Python {pythons}, from "
                f"{its.archive or its.python or sys.executable}",
                subject="executors",
            )


def _last_document(stdout: bytes) -> dict[str, Any] | None:
    for line in reversed(stdout.decode(errors="replace").strip().splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        return found if isinstance(found, dict) else None
    return None


def _spark(found: Mapping[str, Any], its: Runner) -> Iterator[Finding]:
    where = its.python or sys.executable
    if why := found.get("java_error"):
        yield fail(
            f"its Java does not start: {why}",
            "see the check of Java; the jars of `runner.conf` must exist, too",
        )
        return
    yield ok(f"{found['spark']} with Java {found['java']}, in {where}")
    if not found["class_data"] and its.spark_submit is None:
        yield warn(
            f"no class data in {cache_folder()}: each run starts some seconds later",
            (
                f"the first run that ships makes the class data; so does {where} -m "
                "spark_jobs.make_class_data"
            ),
            subject="jars",
        )
    else:
        yield ok(
            f"shipper's reader, and class data in {cache_folder()}"
            if found["class_data"]
            else "shipper's reader",
            subject="jars",
        )


def _source(found: Mapping[str, Any], pipeline: Pipeline, window: Window) -> Iterator[Finding]:
    if "java_error" in found:
        yield skipped("not checked, because Java does not start", subject="source")
        return
    where = f"{found['folder']}, window {window}"
    if why := found.get("source_error") or found.get("problem"):
        yield fail(
            str(why),
            "check `source.path`, the file system's settings and this user's credentials",
            subject="source",
        )
    elif not found["files"]:
        left = f", {found['left_out']} left out" if found["left_out"] else ""
        yield warn(
            f"no file at {where}{left}",
            "check `source.path`, and whether that window should hold files",
            subject="source",
        )
    else:
        yield ok(
            f"{plural(found['files'], 'file')} at {where}; the first can be read", subject="source"
        )
    newest = found.get("newest_ms")
    if newest is not None and newest / 1000 > runtime.time() + _APART_SECONDS:
        yield fail(
            f"a file was modified {newest / 1000 - runtime.time():.0f} s after this machine's now",
            "synchronise both clocks (NTP): `source.settle` compares them",
            subject="source's clock",
        )


def runs_folder(here: CheckTarget) -> Iterator[Finding]:
    """Check `runs_uri` by writing, reading and removing a small file; the file's time shows how far
    the storage's clock is from this one."""
    uri = resolve_uri(here.config_dir, here.of.runs_uri)
    target = f"{uri.rstrip('/')}/{here.of.key}/.doctor-{runtime.token_hex(4)}"
    try:
        fs, path = file_system(target)
        write_whole(target, b"shipper doctor")
        apart = _apart(fs, path)
        back = bytes(fs.cat_file(path))
        fs.rm_file(path)
    except (OSError, ValueError) as error:
        yield fail(f"{uri}: {why_system(error)}")
        return
    if back != b"shipper doctor":
        yield fail(f"{uri}: other bytes are read than were written")
        return
    yield ok(f"{uri} can be written, read and deleted")
    if apart is not None and abs(apart) > _APART_SECONDS:
        yield fail(
            f"the storage of `runs_uri` is {apart:+.0f} s from this machine's clock",
            "set both clocks (NTP)",
            subject="clock",
        )
    elif apart is not None:
        yield ok(
            "the storage of `runs_uri` agrees with this machine's clock to "
            f"{max(1.0, abs(apart)):.0f} s",
            subject="clock",
        )


def _apart(fs: Any, path: str) -> float | None:
    """Return the seconds by which the storage's clock is ahead; None if it does not report when a
    file was written."""
    try:
        modified = fs.modified(path)
    except (NotImplementedError, AttributeError, OSError):
        return None
    if not isinstance(modified, dt.datetime):
        return None
    modified = modified if modified.tzinfo else modified.replace(tzinfo=dt.UTC)
    return modified.timestamp() - runtime.time()


def _ask_airflow(limit_seconds: float) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", _ASK_AIRFLOW]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=limit_seconds
    )


def airflow(here: CheckTarget) -> Iterator[Finding]:
    """Check that Airflow's DAG folder holds the pipelines' DAGs, without faults."""
    pipeline = here.pipeline
    home = Path(os.environ.get("AIRFLOW_HOME") or Path.home() / "airflow")
    if find_spec("airflow") is None:
        yield skipped("Airflow is not installed in this Python")
        return
    if not (home / "airflow.cfg").exists() and "AIRFLOW__CORE__DAGS_FOLDER" not in os.environ:
        yield skipped(
            f"no Airflow is set up here: {home}/airflow.cfg does not exist (AIRFLOW_HOME)"
        )
        return
    try:
        done = _ask_airflow(here.limit_seconds)
    except subprocess.TimeoutExpired:
        yield warn(
            f"its DAG folder took longer than {here.limit_seconds:g} s to parse",
            "raise --limit; see docs/understand/sizing.md",
        )
        return
    found = _last_document(done.stdout)
    if found is None:
        yield fail(f"Airflow cannot be asked: {_last_words(done.stderr)}")
        return
    for file, words in found["errors"].items():
        yield fail(f"{file} cannot be imported: {''.join(words)}")
    if pipeline is None or found["errors"]:
        broken = sorted(name for name, tags in found["dags"].items() if "broken-config" in tags)
        if broken:
            yield fail(
                f"the configuration of {', '.join(broken)} is broken",
                "run `shipper validate` where Airflow runs",
            )
        elif not found["errors"]:
            yield ok(f"{found['folder']}: {len(found['dags'])} DAGs")
    elif pipeline.name not in found["dags"]:
        yield fail(
            f"{found['folder']} makes no DAG {pipeline.name}",
            ("run `shipper dags install` with that folder; SHIPPER_CONFIG names the configuration"),
        )
    elif "broken-config" in found["dags"][pipeline.name]:
        yield fail(
            f"DAG {pipeline.name} only shows that its configuration is broken",
            "run `shipper validate` where Airflow runs",
        )
    else:
        yield ok(f"{found['folder']} makes the DAG {pipeline.name}")
    wanted = (
        found["pools_missing"]
        if pipeline is None
        else {pipeline.name: found["pools_missing"].get(pipeline.name, [])}
    )
    for pool in sorted({pool for pools in wanted.values() for pool in pools}):
        waiting = ", ".join(sorted(name for name, pools in wanted.items() if pool in pools))
        yield fail(
            f"the pool {pool} (`airflow_pool` of a cluster) does not exist, so ships of "
            f"{waiting} would never begin",
            f"`airflow pools set {shlex.quote(pool)} 4 'ships to a cluster'`, with as many slots "
            "as pipelines may ship there at once",
        )


def disks(here: CheckTarget) -> Iterator[Finding]:
    """Check for free space where shipper, Spark and Java write."""
    places = {"cache": cache_folder(), "temporary files": Path(tempfile.gettempdir())}
    if here.pipeline is not None and "://" not in (
        uri := resolve_uri(here.config_dir, here.pipeline.runs_uri)
    ):
        places["runs"] = Path(uri)
    for what, folder in places.items():
        there = folder
        while not there.exists() and there != there.parent:
            there = there.parent
        if (usage := shutil.disk_usage(there)).total == 0:
            continue  # no disk is behind it
        free = usage.free
        says = f"{what}: {free / 1e9:,.1f} GB free at {folder}"
        remedy = (
            "make room there, or use another folder "
            f"({ {'cache': 'SHIPPER_CACHE', 'runs': '`runs_uri`'}.get(what, 'TMPDIR') })"
        )
        if not os.access(there, os.W_OK):
            # runs need the cache only for jars to fetch, and the check of Spark fetches those
            finding = warn if what == "cache" else fail
            yield finding(f"{says}, and this user may not write there", remedy)
        elif free < _TOO_LITTLE_BYTES:
            yield fail(says, remedy)
        elif free < _LITTLE_BYTES:
            yield warn(says, remedy)
        else:
            yield ok(says)


#: What is asked of this machine.
CHECKS = (
    Check("Java", java, INSTALL),
    Check("Python", packages, "install shipper anew"),
    Check(
        "Spark",
        spark_and_source,
        "run this again with -v, which shows the cause",
        needs_pipeline=True,
    ),
    Check(
        "runs_uri",
        runs_folder,
        "correct `runs_uri`, its permissions or its credentials; nothing can be shipped without it",
        needs_pipeline=True,
    ),
    Check("Airflow", airflow, "`airflow dags list-import-errors` says more"),
    Check("disk", disks, "make room there, or use another folder"),
)

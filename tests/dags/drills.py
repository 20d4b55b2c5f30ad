"""Tests of a real Airflow: waiting, and its processes and those of its Spark sides, which a live
hour kills."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import psutil
from shipper_tools.dev.airflow import Airflow
from shipper_tools.dev.postgres import PostgresServer, why_no_postgres

from tests.waiting import wait_until

T = TypeVar("T")


def wait_for(airflow: Airflow, holds: Callable[[], T], within_seconds: float = 300) -> T:
    """Wait as :func:`wait_until` does, and for as long as Airflow gets on. Each look may cost an
    answer of Airflow's."""
    return wait_until(holds, within_seconds, every_seconds=0.5, progress=airflow.progress)


@contextmanager
def airflow_on_postgres(folder: Path, environment: Mapping[str, str]) -> Iterator[Airflow]:
    """Start an Airflow, on SQLite where there is no PostgreSQL: commands may find that locked."""
    with ExitStack() as stack:
        database = None
        if why_no_postgres() is None:
            server = PostgresServer(folder / "postgres", die_with_parent=True)
            database = stack.enter_context(server).url
        yield stack.enter_context(Airflow(folder / "airflow", environment, database=database))


def spark_sides(config: Path, step: str = "") -> list[psutil.Process]:
    """Return the processes that run a step whose name begins with ``step``, without their JVMs and
    workers."""
    return [process for process in psutil.process_iter() if _runs_step(process, str(config), step)]


def _runs_step(process, config, step):
    line = _command(process)
    try:
        is_side = (
            "spark_jobs" in line
            and config in line
            and any(word.startswith(step) for word in line[-1:])
        )
        return is_side and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def part(airflow: Airflow, name: str) -> psutil.Process:
    """Return ``scheduler`` or ``dag-processor``: the process, not the workers that it has
    forked."""
    found = {each.pid: each for each in psutil.process_iter() if _is_part(each, airflow, name)}
    (process,) = [each for each in found.values() if each.ppid() not in found]
    return process


def _is_part(process, airflow, name):
    try:
        return _command(process)[-1:] == [name] and process.environ().get("AIRFLOW_HOME") == str(
            airflow.home
        )
    except psutil.Error:
        return False


def _command(process):
    """Return nothing for a process that has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []

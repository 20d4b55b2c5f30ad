"""The entry point of the Spark side: ``python -m spark_jobs --pipeline P --window START/END --run-id R STEP…``.

Started by Airflow with one step per task, and by ``shipper run`` with all of them (see shipper.runner). ``check`` in place of
the steps analyses the SQL of all pipelines and prints the faults as JSON.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import socketserver
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

from shipper import job_environment
from shipper.config import load_all, load_pipeline, resolve_uri
from shipper.config.environment import EVERYTHING, GIVEN_VARIABLE
from shipper.config.load import references
from shipper.config.pipeline import Pipeline, Source
from shipper.config.properties import deciding
from shipper.errors import ShipperError
from shipper.processes import age_seconds, be_fast
from shipper.report.phases import STARTING_PYTHON
from shipper.report.run_folder import RunFolder
from shipper.runner import GATE_DELIVERY, GATE_SOURCE, GRACE_SECONDS, PLAN, SHIP
from shipper.stopping import Stopped, raise_when_stopped
from shipper.windows.window import parse_window
from spark_jobs.context import Clusters, RunContext, say
from spark_jobs.java import begin_java
from spark_jobs.settings import set_environment, spark_settings

#: Before whoever asked loses patience.
_STOPPED_WITHIN_SECONDS = GRACE_SECONDS - 2


def main(argv: list[str] | None = None) -> int:
    """Returns the exit code: 0 done, 1 failed run or closed gate, 2 wrong config or usage."""
    parser = argparse.ArgumentParser(
        prog="python -m spark_jobs", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--config", type=Path, default=Path("config"), help="folder with pipelines/ and clusters/")
    parser.add_argument("--pipeline", help="name of the pipeline")
    parser.add_argument("--window", help="START/END, ISO 8601, UTC unless it says otherwise")
    parser.add_argument("--run-id", help="names the folder for results, and the run in the ledger")
    parser.add_argument("--runs-uri", help="in place of the pipeline's runs_uri")
    parser.add_argument("--reship", action="store_true", help="send files again that are there already")
    parser.add_argument("--scheduled", action="store_true", help="a run of the schedule: also ship what came late before it")
    parser.add_argument("--reship-id", default="", help="the same name again finishes that reship and begins none")
    parser.add_argument("--reship-reason", default="", help="why, for the ledger and the report")
    parser.add_argument("--new-ledger", action="store_true", help="go on although the ledger is gone, or was made anew")
    parser.add_argument(
        "--source-only", action="store_true", help="plan without asking a cluster: all files count as left to ship"
    )
    parser.add_argument("--brief", action="store_true", help="leave the words at the end to the process that started this one")
    parser.add_argument(
        "steps", nargs="+", metavar="STEP", help="plan, gate_source, ship:CLUSTER, gate_delivery:CLUSTER, report; or check"
    )
    arguments = parser.parse_args(argv)
    _set_up_logging()
    raise_when_stopped(_STOPPED_WITHIN_SECONDS)
    try:
        if arguments.steps == ["check"]:
            return check_sql(arguments.config, arguments.pipeline)
        if not (arguments.pipeline and arguments.window and arguments.run_id):
            parser.error("--pipeline, --window and --run-id are needed")
        return _run(arguments)
    except ShipperError as error:
        say(error.message)
        return error.exit_code


class _WithoutStacks(logging.Formatter):
    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        return ""


def _set_up_logging() -> None:
    """``-v`` (``SHIPPER_LOG=info``) shows what lanes and librdkafka do, and stacks; by default only what somebody should act on is shown."""
    level = os.environ.get("SHIPPER_LOG")
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=(level or "warning").upper(), format=form, stream=sys.stderr)
    if level is None:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(_WithoutStacks(form))
            # py4j's own words on a JVM that is gone; see spark_jobs.reason for ours.
            handler.addFilter(lambda record: record.getMessage() != "Exception while sending command.")
        for name in ("shipper.kafka", "shipper.verify.readback"):
            logging.getLogger(name).setLevel(logging.ERROR)
        # pyspark's server for accumulators prints a stack when the JVM goes.
        socketserver.BaseServer.handle_error = lambda self, request, client_address: None  # type: ignore[method-assign]


def _run(arguments: argparse.Namespace) -> int:
    pipeline = load_pipeline(arguments.config, arguments.pipeline)
    window = parse_window(arguments.window)
    runs_uri = resolve_uri(arguments.config, arguments.runs_uri or pipeline.runs_uri)
    context = RunContext(
        pipeline=pipeline,
        clusters=Clusters(arguments.config, () if arguments.source_only else pipeline.clusters),
        config_dir=arguments.config,
        window=window,
        folder=RunFolder(runs_uri, pipeline.name, window.start, window.end, arguments.run_id),
        reship=arguments.reship,
        scheduled=arguments.scheduled,
        trial=arguments.runs_uri is not None,
        reship_id=arguments.reship_id,
        reship_reason=arguments.reship_reason,
        new_ledger=arguments.new_ledger,
        source_only=arguments.source_only,
        brief=arguments.brief,
        ships=any(step.partition(":")[0] == SHIP for step in arguments.steps),
        has_gate=any(step.partition(":")[0] in (GATE_SOURCE, GATE_DELIVERY) for step in arguments.steps),
    )
    job_environment.forget([*(found.name for found in references(arguments.config, pipeline.name)), GIVEN_VARIABLE])
    if PLAN in arguments.steps:  # it lists files; Java starts while Python imports the rest
        set_environment(pipeline)
        begin_java(spark_settings(pipeline))
    # The steps import the report, and more; a wrong argument should not have to wait for them.
    from spark_jobs.steps import run_steps

    context.folder.make()
    context.phases.add(STARTING_PYTHON, age_seconds())
    try:
        return run_steps(context, arguments.steps)
    except Stopped:
        context.abandon_spark()
        raise
    finally:
        context.stop_spark()


def check_sql(config_dir: Path, only: str | None = None) -> int:
    """Prints ``{pipeline: [[field, message], …]}`` for all pipelines that load, or one of them; returns 0 also when there are faults."""
    from spark_jobs.expressions import sql_faults
    from spark_jobs.session import session, setting

    pipelines = load_all(config_dir, EVERYTHING).pipelines
    if only is not None:
        pipelines = {name: pipeline for name, pipeline in pipelines.items() if name == only}
    spark = session(Pipeline(name="check", source=Source(path="unused"), routes=[{"topic": "unused"}], clusters=["unused"]))
    found = {}
    for name, pipeline in pipelines.items():
        with ExitStack() as settings:
            for key, value in deciding(pipeline.runner.conf).items():
                with suppress(Exception):  # one that only a new session takes
                    settings.enter_context(setting(spark, key, value))
            found[name] = sql_faults(spark, pipeline)
    print(json.dumps({name: [[fault.field, fault.message] for fault in faults] for name, faults in found.items()}))
    spark.stop()
    return 0


if __name__ == "__main__":
    be_fast()
    try:
        code = main()
    except Stopped as stopped:
        code = 128 + stopped.signum
    except SystemExit as told:  # by argparse, in words
        code = told.code if isinstance(told.code, int) else 1
    # Everything is said and released. Python would take a second to take itself apart, and wait for threads that wait for a cluster.
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

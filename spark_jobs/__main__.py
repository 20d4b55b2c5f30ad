"""The entry point of the Spark side: ``python -m spark_jobs --pipeline P --window START/END
--run-id R [--request FILE] STEP…``.

Started by Airflow with one step per task, and by ``shipper run`` with all of them (see
shipper.runner). ``check`` in place of the steps analyses the SQL of all pipelines and prints the
faults as JSON; ``samples`` reads samples of tests, as standard input names them.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import socketserver
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

from pydantic import ValidationError

from shipper import job_environment
from shipper.config.content_checks import is_count
from shipper.config.environment import EVERYTHING, GIVEN_VARIABLE
from shipper.config.load import load_all, load_pipeline, references
from shipper.config.pipeline import Pipeline
from shipper.config.replay_request import replayed
from shipper.config.rules import resolve_uri
from shipper.driver.clusters import Clusters
from shipper.errors import JarsUnavailable, JavaUnavailable, ShipperError, UsageError
from shipper.processes import age_seconds, collect_garbage_less_often
from shipper.report.phases import STARTING_PYTHON
from shipper.request import RunRequest, apply_request, contradiction
from shipper.runner import (
    GATE_SOURCE,
    GRACE_SECONDS,
    LOOK,
    PLAN,
    REPORT,
    SAMPLES,
    SHIP,
    why_no_pyspark,
)
from shipper.stopping import Stopped, raise_when_stopped
from shipper.terminal import log_level, say
from shipper.windows.window import parse_window
from spark_jobs import class_data
from spark_jobs.jvm import begin_java, end_unused_java
from spark_jobs.settings import set_environment, spark_settings

#: Time to stop: a little less than the caller's patience.
_STOPPED_WITHIN_SECONDS = GRACE_SECONDS - 2
#: For a session in which nothing is read.
_ANY_PIPELINE = {"pipeline": "check", "source": "unused", "topic": "unused", "clusters": ["unused"]}


def main(argv: list[str] | None = None) -> int:
    """Run the steps and return the exit code: 0 done, 1 failed run or closed gate, 2 wrong config
    or usage."""
    parser = argparse.ArgumentParser(
        prog="python -m spark_jobs",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument(
        "--config", type=Path, default=Path("config"), help="folder with pipelines/ and clusters/"
    )
    parser.add_argument("--pipeline", help="name of the pipeline")
    parser.add_argument("--window", help="START/END, ISO 8601, UTC unless it says otherwise")
    parser.add_argument("--run-id", help="names the folder for results, and the run in the ledger")
    parser.add_argument(
        "--request",
        type=Path,
        help="file with what the run is asked for (shipper.request), JSON",
    )
    parser.add_argument(
        "steps",
        nargs="+",
        metavar="STEP",
        help="plan, gate_source, ship:CLUSTER, gate_delivery:CLUSTER, report; or check, samples or "
        "look",
    )
    arguments = parser.parse_args(argv)
    raise_when_stopped(_STOPPED_WITHIN_SECONDS)
    try:
        asked = _request(arguments.request)
        _set_up_logging()
        if why := why_no_pyspark():
            raise UsageError(why, code="SHIP-110")
        if arguments.steps == ["check"]:
            return check_sql(arguments.config, arguments.pipeline)
        if arguments.steps == [SAMPLES]:
            return read_samples(arguments.config)
        if not (arguments.pipeline and arguments.window and arguments.run_id):
            parser.error("--pipeline, --window and --run-id are needed")
        if arguments.steps == [LOOK]:
            from spark_jobs.look import look

            return look(
                arguments.config,
                load_pipeline(arguments.config, arguments.pipeline),
                parse_window(arguments.window),
            )
        return _run(arguments, asked)
    except ShipperError as error:
        say(error.message)
        return error.exit_code


class _WithoutStacks(logging.Formatter):
    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        return ""


def _set_up_logging() -> None:
    """Set up logging: ``-v`` (``SHIPPER_LOG=info``) shows the log of lanes and librdkafka, and
    stacks; by default only messages that need an action are shown."""
    level = log_level()
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=level or "WARNING", format=form, stream=sys.stderr)
    if level is None:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(_WithoutStacks(form))
            # py4j's own words on a JVM that is gone; see spark_jobs.reason for ours.
            handler.addFilter(
                lambda record: record.getMessage() != "Exception while sending command."
            )
        # pyspark's server for accumulators prints a stack when the JVM goes.
        socketserver.BaseServer.handle_error = lambda self, request, client_address: None  # type: ignore[method-assign]


def _run(arguments: argparse.Namespace, asked: RunRequest) -> int:
    whole = load_pipeline(arguments.config, arguments.pipeline)
    schedule = whole.schedule
    if asked.replay:
        whole = replayed(whole, asked.replay)
    if fault := contradiction(asked, whole):
        raise UsageError(f"{fault}. Nothing was sent.")
    pipeline, asked = apply_request(whole, asked)
    window = parse_window(arguments.window)
    clusters = Clusters(arguments.config, () if asked.source_only else pipeline.clusters)
    job_environment.forget(
        [
            *(found.name for found in references(arguments.config, arguments.pipeline)),
            GIVEN_VARIABLE,
        ]
    )
    steps = {step.partition(":")[0] for step in arguments.steps}
    if PLAN in steps:  # it lists files; Java starts while Python imports the rest
        set_environment(pipeline)
        with suppress(JarsUnavailable, JavaUnavailable):  # the step says so, in its result
            begin_java(spark_settings(pipeline))
    from shipper.driver.context import RunContext
    from shipper.driver.killed import noted
    from shipper.driver.run import run_steps
    from shipper.report.run_folder import RunFolder
    from spark_jobs.spark_engine import SparkEngine

    runs_uri = asked.results_uri(resolve_uri(arguments.config, pipeline.runs_uri))
    judges = GATE_SOURCE in steps and not all(map(is_count, pipeline.gates.source))
    engine = SparkEngine(pipeline, judges=judges, ships=SHIP in steps)
    context = RunContext(
        pipeline=pipeline,
        clusters=clusters,
        config_dir=arguments.config,
        window=window,
        folder=RunFolder(runs_uri, pipeline.key, window, arguments.run_id),
        engine=engine,
        request=asked,
        schedule=schedule,
        ships=SHIP in steps,
    )
    context.folder.make()
    context.phases.add(STARTING_PYTHON, age_seconds())
    try:
        whole_run = {PLAN, REPORT} <= steps and not context.is_trial
        with noted(context, arguments.pipeline) if whole_run else nullcontext():
            code = run_steps(context, arguments.steps)
        if SHIP in steps:
            class_data.make_in_background()
        return code
    except Stopped:
        engine.abandon()
        raise
    finally:
        engine.stop()


def _request(file: Path | None) -> RunRequest:
    if file is None:
        return RunRequest()
    try:
        return RunRequest.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        raise UsageError(
            f"the run's request {file} cannot be read: {error}. Nothing was sent. The process that "
            "starts this one must run the same version of shipper."
        ) from error


def check_sql(config_dir: Path, only: str | None = None) -> int:
    """Print ``{pipeline: [[field, message], …]}`` for all pipelines that load, or one of them;
    return 0 also when there are faults."""
    from spark_jobs.expressions import sql_faults
    from spark_jobs.session import session, settings_of

    pipelines = load_all(config_dir, EVERYTHING).pipelines
    if only is not None:
        pipelines = {name: pipeline for name, pipeline in pipelines.items() if name == only}
    spark = session(Pipeline.model_validate(_ANY_PIPELINE))
    found = {}
    for name, pipeline in pipelines.items():
        with settings_of(spark, pipeline):
            found[name] = sql_faults(spark, pipeline)
    print(
        json.dumps(
            {
                name: [[fault.field, fault.message] for fault in faults]
                for name, faults in found.items()
            }
        )
    )
    spark.stop()
    return 0


def read_samples(config_dir: Path) -> int:
    """Read the samples that standard input lists as JSON (:class:`SampleToRead`), and print what
    became of each (:class:`ReadSample`). Return 0 also for those that cannot be read."""
    from shipper.report.preview_result import SampleToRead
    from spark_jobs.read_samples import read
    from spark_jobs.session import session

    samples = [SampleToRead.model_validate(each) for each in json.load(sys.stdin)]
    # Of a pipeline with SQL: its session compiles expressions, as that of a run does.
    spark = session(Pipeline.model_validate({**_ANY_PIPELINE, "records": {"key": "value"}}))
    found = read(spark, config_dir, samples)
    print(json.dumps([each.model_dump() for each in found]))
    spark.stop()
    return 0


if __name__ == "__main__":
    collect_garbage_less_often()
    try:
        code = main()
    except Stopped as stopped:
        code = 128 + stopped.signum
    except SystemExit as told:  # by argparse, in words
        code = told.code if isinstance(told.code, int) else 1
    # Everything is reported and released. Python would take a second to shut down, and wait for
    # threads that wait for a cluster.
    end_unused_java()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

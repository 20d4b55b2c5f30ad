"""The entry point of the Spark side: ``python -m spark_jobs --pipeline P --window START/END --run-id R STEP…``.

Started by Airflow with one step per task, and by ``shipper run`` with all of them (see shipper.runner). ``check`` in place of
the steps analyses the SQL of all pipelines and prints the faults as JSON.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from shipper.config import load_all, load_cluster, load_pipeline, resolve_uri
from shipper.config.models import Pipeline, Source
from shipper.errors import ShipperError
from shipper.plan.window import parse_window
from shipper.report.results import RunFolder
from shipper.runner import GATE_DELIVERY, GATE_SOURCE
from spark_jobs.context import RunContext, say
from spark_jobs.records import sql_faults
from spark_jobs.session import session


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
    parser.add_argument(
        "--source-only", action="store_true", help="plan without asking a cluster: all files count as left to ship"
    )
    parser.add_argument(
        "steps", nargs="+", metavar="STEP", help="plan, gate_source, ship:CLUSTER, gate_delivery:CLUSTER, report; or check"
    )
    arguments = parser.parse_args(argv)
    _set_up_logging()
    signal.signal(signal.SIGTERM, _stop)
    try:
        if arguments.steps == ["check"]:
            return check_sql(arguments.config)
        if not (arguments.pipeline and arguments.window and arguments.run_id):
            parser.error("--pipeline, --window and --run-id are needed")
        return _run(arguments)
    except ShipperError as error:
        say(error.message)
        return error.exit_code


def _set_up_logging() -> None:
    """``SHIPPER_LOG=info`` shows what lanes and librdkafka do; by default only what somebody should act on is shown."""
    level = os.environ.get("SHIPPER_LOG")
    logging.basicConfig(
        level=(level or "warning").upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    if level is None:
        for name in ("shipper.kafka", "shipper.readback"):
            logging.getLogger(name).setLevel(logging.ERROR)


def _stop(signum: int, frame: FrameType | None) -> None:
    """TERM unwinds the stack, so that the lease is released and Spark stopped; without it the next run waits for the lease."""
    raise SystemExit(128 + signum)


def _run(arguments: argparse.Namespace) -> int:
    # The steps import Spark's readers and the report; a wrong argument should not have to wait for them.
    from spark_jobs.steps import run_steps

    pipeline = load_pipeline(arguments.config, arguments.pipeline)
    window = parse_window(arguments.window)
    runs_uri = resolve_uri(arguments.config, arguments.runs_uri or pipeline.runs_uri)
    context = RunContext(
        pipeline=pipeline,
        clusters={} if arguments.source_only else {name: load_cluster(arguments.config, name) for name in pipeline.clusters},
        config_dir=arguments.config,
        window=window,
        folder=RunFolder(runs_uri, pipeline.name, window.start, window.end, arguments.run_id),
        reship=arguments.reship,
        source_only=arguments.source_only,
        has_gate=any(step.partition(":")[0] in (GATE_SOURCE, GATE_DELIVERY) for step in arguments.steps),
    )
    try:
        return run_steps(context, arguments.steps)
    finally:
        context.stop_spark()


def check_sql(config_dir: Path) -> int:
    """Prints ``{pipeline: [[field, message], …]}`` for all pipelines that load; returns 0 also when there are faults."""
    pipelines = load_all(config_dir).pipelines
    spark = session(Pipeline(name="check", source=Source(path="unused"), routes=[{"topic": "unused"}], clusters=["unused"]))
    print(json.dumps({name: sql_faults(spark, pipeline) for name, pipeline in pipelines.items()}))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

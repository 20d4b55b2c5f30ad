"""What the source gate costs beside shipping the same 2,000,000 lines, step against step, round by
round in one warm Spark session. `make scale` prints it."""

import random
import statistics
import time

import pytest

from shipper.config.content_checks import Gates
from shipper.config.load import load_cluster, load_pipeline
from shipper.driver.context import RunContext
from shipper.driver.run import run_steps
from shipper.report.results import GateResult, ShipResult
from shipper.report.run_folder import RunFolder
from shipper.request import RunRequest
from shipper.runner import GATE_SOURCE, PLAN, SHIP, new_run_id
from shipper.windows.window import parse_window
from spark_jobs.session import session
from spark_jobs.spark_engine import SparkEngine
from tests.integration.conftest import kafka  # noqa: F401
from tests.integration.world import WINDOW, World

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(3600)]

FILES, LINES = 8, 2_000_000
WARM_UP, ROUNDS = 4, 5
STATUS = r"regexp_extract(value, '\" (\\d{3}) ', 1)"
#: How a line begins, and what reads its time. Java takes a microsecond of CPU for a time in a
#: format of its own.
FORMATS = {
    "ISO times": (
        "2026-11-01T{i:02}:{m:02}:{s:02}Z 10.{a}.{b}.7 - ",
        {"at": "try_cast(substring_index(value, ' ', 1) AS TIMESTAMP)", "status": STATUS},
        r"^\S+ \S+ - \"",
    ),
    "access log": (
        "10.{a}.{b}.7 - - [01/Nov/2026:{i:02}:{m:02}:{s:02} +0000] ",
        {
            "time": r"regexp_extract(value, '\\[([^\\]]+)\\]', 1)",
            "at": "try_to_timestamp(time, 'dd/MMM/yyyy:HH:mm:ss Z')",
            "status": STATUS,
        },
        r"^\S+ \S+ \S+ \[",
    ),
}
SUITE = [
    {"check": "rows", "min": 1000},
    {"check": "not_null", "column": "status"},
    {"check": "matches"},
    {"check": "allowed", "column": "status", "values": [200, 404, 503]},
    {"check": "in_window", "column": "at"},
    {"check": "line_length", "p50": "200B", "p99": "1kB", "max": "64kB"},
    {"check": "condition", "name": "agent", "sql": "value LIKE '%Mozilla%'"},
    {"check": "route_rate"},
]


def write_logs(world, begin):
    chance = random.Random(1)
    for file in range(FILES):
        lines = (
            begin.format(
                a=chance.randrange(256), b=chance.randrange(256), i=i % 24, m=i % 60, s=i % 59
            )
            + (
                f'"GET /items/{chance.randrange(10**9):09} HTTP/1.1" '
                f'{chance.choice((200,) * 18 + (404, 503))} {chance.randrange(10**5):05} "-" '
                '"Mozilla/5.0 (X11; Linux x86_64)"'
            )
            for i in range(LINES // FILES)
        )
        world.write_log(f"{file}.log", "".join(f"{line}\n" for line in lines).encode())


def made_world(root, bootstrap, begin, columns):
    made = World(root, bootstrap, topics={"": 8, "-errors": 2})
    made.write_pipeline(
        topic=None,
        routes=[
            {"when": "status >= '500'", "topic": made.topic("-errors")},
            {"topic": made.topic()},
        ],
        records={"columns": columns},
        runner={"cores": 2, "driver_memory": "2g"},
    )
    write_logs(made, begin)
    return made


@pytest.mark.parametrize("form", FORMATS)
def test_the_gate_costs_a_fraction_of_shipping_the_same_lines(form, tmp_path, kafka, capsys):  # noqa: F811
    begin, columns, regex = FORMATS[form]
    suite = [check | {"regex": regex} if check["check"] == "matches" else check for check in SUITE]
    world = made_world(tmp_path, kafka.bootstrap, begin, columns)
    config = world.root / "config"
    pipeline, window = load_pipeline(config, world.name), parse_window(WINDOW)
    clusters = {"local": load_cluster(config, "local")}
    spark = session(pipeline)
    took = {"sample": [], "full": [], "ship": []}
    for _ in range(WARM_UP + ROUNDS):
        folder = RunFolder(str(world.root / "runs"), pipeline.name, window, new_run_id())
        engine = SparkEngine(pipeline, spark=spark)
        asked = RunRequest(reship=True)
        context = RunContext(pipeline, clusters, config, window, folder, engine, asked)
        assert run_steps(context, [PLAN]) == 0
        for on in ("sample", "full"):
            gates = Gates.model_validate({"source": [{**check, "on": on} for check in suite]})
            context.pipeline = pipeline.model_copy(update={"gates": gates})
            context.engine = SparkEngine(context.pipeline, spark=spark)
            began = time.monotonic()
            assert run_steps(context, [GATE_SOURCE]) == 0
            took[on].append(time.monotonic() - began)
            result = folder.need(GATE_SOURCE, GateResult)
            assert (len(result.checks), result.scans) == (len(SUITE), 1)
            assert all(check.passed for check in result.checks)
        context.pipeline, context.engine = pipeline, engine
        began = time.monotonic()
        assert run_steps(context, [f"{SHIP}:local"]) == 0
        took["ship"].append(time.monotonic() - began)
        shipped = folder.need(f"{SHIP}.local", ShipResult)
        assert shipped.delivered == LINES
    spark.stop()

    seconds = {what: statistics.median(rounds[WARM_UP:]) for what, rounds in took.items()}
    with capsys.disabled():
        print(f"\n{form}", end="")
        for what, rounds in took.items():
            every = ", ".join(f"{one:.2f}" for one in rounds[WARM_UP:])
            print(
                f"\n{what:7} {seconds[what]:.2f} s  ({every})  "
                f"{seconds[what] / seconds['ship']:.0%} of shipping",
                end="",
            )
    if form == "ISO times":  # what each is of the others differs by processor, their order does not
        assert seconds["sample"] < seconds["full"] < seconds["ship"], took

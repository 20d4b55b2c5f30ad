"""Bad input: one paragraph that names the file, field or cluster and the remedy, an exit code, and
nothing sent."""

import json
import os
import re

import pytest

from shipper.report.plan_result import PlanResult

from .world import WINDOW, World, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def world(tmp_path, kafka):
    world = World(tmp_path, kafka.bootstrap)
    world.write_log("a.log", b"one\n")
    return world


def test_validate_shows_wrong_sql_of_all_pipelines_with_file_and_line(world, tmp_path):
    program, ran = tmp_path / "python", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch {ran}\nexit 3\n")
    program.chmod(0o755)
    world.write_pipeline(
        runner={"python": str(program)},
        records={
            "columns": {"a": "no_such_function(value)"},
            "key": "missing_column",
            "parse": {"regex": "(?<b>x{2)"},
            "drop": {"text": "b"},
            "headers": {"id": "uuid()"},
        },
        topic=None,
        routes=[{"when": "length(value)", "topic": world.topic()}, {"topic": world.topic()}],
    )
    done = world.shipper("validate")
    flat = " ".join(done.stderr.split())
    assert done.returncode == 2
    for field in (
        "records.columns.a",
        "records.key",
        r"routes[0].when",
        "records.parse.regex",
        "records.drop.text",
        "records.headers.id",
    ):
        assert ".yaml:" in flat
        assert field in flat, flat
    assert "Traceback" not in done.stderr
    assert not ran.exists(), "who validates a configuration need not trust it"
    assert (
        "SQL expressions could not be analysed"
        in world.shipper("validate", "--runner-python").stderr
    )
    assert ran.exists()


@pytest.mark.parametrize(
    ("records", "code", "says"),
    [
        ({"key": "missing_column"}, 1, "missing_column"),
        pytest.param(
            {"drop": {"half": "rand() < 0.5"}},
            2,
            r"records\.drop\.half.*each time",
            marks=pytest.mark.long,
        ),
    ],
)
def test_wrong_sql_stops_a_run_before_anything_is_sent(world, records, code, says):
    world.write_pipeline(records=records)
    world.fails(code=code, says=says)
    assert world.nothing_was_sent()


@pytest.mark.long
def test_a_window_without_files_fails_unless_the_pipeline_says_otherwise(world):
    world.write_pipeline(source={"path": "elsewhere/{window_start:%Y}/", "settle": "0s"})
    world.fails(code=1, says=r"no files for window.*elsewhere/2026.*when_empty")
    (plan,) = [
        PlanResult.model_validate_json(path.read_text())
        for path in (world.root / "runs").rglob("plan.json")
    ]
    assert plan.final, "Airflow goes on with the next window at once"
    world.write_pipeline(
        source={"path": "elsewhere", "when_empty": "succeed"},
        gates={"source": [{"check": "files", "min": 0}]},
    )
    assert world.run()["delivered"] == 0


@pytest.mark.long
def test_a_file_that_was_denied_is_no_unreadable_one_and_is_shipped_when_the_right_is_there(world):
    secret = world.write_log("secret.log", b"x\n")
    secret.chmod(0)
    world.client.create_topics({world.topic("-q"): 1}, replication_factor=1)
    world.write_pipeline(
        source={"path": "logs", "settle": "0s", "on_unreadable": "quarantine"},
        quarantine={"topic": world.topic("-q"), "max_rate": 1.0},
    )
    says = r"1 file cannot be read: \S*secret\.log: no permission to read it.* Run again"
    world.fails(code=1, says=says, prefix=as_an_ordinary_user())
    assert (world.read(), world.read("-q")) == (lines_of(b"one\n"), lines_of())
    secret.chmod(0o644)
    world.write_log("b.log.part", b"half\n")
    done = world.shipper("run", world.name, "--window", WINDOW)
    assert done.returncode == 0, done.stderr[-4000:]
    strict = world.shipper("run", world.name, "--window", WINDOW, "--strict")
    assert strict.returncode == 3, strict.stderr[-4000:]
    assert re.search(r"WARNING\s.*b\.log\.part: still being written", " ".join(done.stderr.split()))
    assert world.read() == lines_of(b"one\n", b"x\n")


@pytest.mark.long
def test_a_log_whose_first_line_begins_like_a_packed_file_is_never_done_by_quarantine(world):
    log = b"\x1f\x8b\x08\x00 GET /\nsecond\n"
    world.write_log("hostile.log", log)
    world.client.create_topics({world.topic("-q"): 1}, replication_factor=1)
    quarantine = {"topic": world.topic("-q"), "max_rate": 1.0}
    world.write_pipeline(
        source={"path": "logs", "settle": "0s", "on_unreadable": "quarantine"},
        quarantine=quarantine,
    )
    world.fails(code=1, says=r"hostile\.log: .*`source\.codec: none`")
    assert (world.read(), world.read("-q")) == (lines_of(b"one\n"), lines_of())
    world.write_pipeline(
        source={"path": "logs", "settle": "0s", "codec": "none"}, quarantine=quarantine
    )
    assert world.run()["delivered"] == 2
    assert world.read() == lines_of(b"one\n", log)


@pytest.mark.long
def test_a_stray_quote_weighs_as_many_records_as_the_rows_that_it_hides(world):
    """Rows behind the quote are one record, which a run counted as one in a hundred thousand."""
    rows = [b"%d,said %d\n" % (number, number) for number in range(10_000)]
    rows[5_000] = b'5000,"said 5000\n'
    (world.logs / "a.log").unlink()
    world.write_log("a.csv", b"number,text\n" + b"".join(rows))
    world.client.create_topics({world.topic("-q"): 1}, replication_factor=1)

    def allow(max_rate):
        world.write_pipeline(
            source={"path": "logs", "settle": "0s", "format": "csv"},
            records={"max_line": "1kB"},
            quarantine={"topic": world.topic("-q"), "max_rate": max_rate},
        )

    allow(0.4)
    world.fails(code=1, says=r"max_rate")
    world.fails(code=1, says=r"max_rate")  # by the ledger alone: there is nothing to ship
    allow(0.6)
    run = world.run()
    assert (run["delivered"], run["before"], len(world.read("-q"))) == (0, 5_001, 1)
    (world.logs / "a.csv").rename(world.logs / "b.csv")
    allow(0.4)
    world.fails(code=1, says=r"max_rate")  # by what the ledger has under the former name
    assert len(world.read("-q")) == 1


def as_an_ordinary_user():
    """Root reads everything, unless it goes without the capability to."""
    if os.geteuid() != 0:
        return []
    capabilities = "-dac_override,-dac_read_search"
    return ["setpriv", f"--bounding-set={capabilities}", f"--inh-caps={capabilities}"]


@pytest.mark.long
def test_a_file_in_whose_middle_an_expression_fails_is_not_whole(world):
    """Spark closes the stream to Python then, which looks there as if there were no more lines."""
    world.write_log("a.log", b"".join(b"line %d\n" % number for number in range(5_000)))
    world.write_pipeline(
        records={"value": "if(value = 'line 4000', raise_error('no more'), value)"},
        runner={
            "driver_memory": "1g",
            "conf": {"spark.sql.execution.arrow.maxRecordsPerBatch": "100"},
        },
    )
    world.fails(code=1, says="USER_RAISED_EXCEPTION")
    done = world.shipper("plan", world.name, "--window", WINDOW, "--json")
    (cluster,) = json.loads(done.stdout)["clusters"]
    assert cluster["records_there"] <= 4_000
    assert cluster["complete_files"] == 0, "nobody has seen its end"


@pytest.mark.long
def test_a_ledger_topic_with_the_wrong_settings_is_refused(world):
    world.client.create_topics({f"_shipper.{world.name}": 1}, replication_factor=1)
    world.fails(
        code=1,
        says=rf"_shipper\.{world.name} .*cleanup\.policy is 'delete'.*1 partition, not 2.*SHIP-505",
    )
    assert world.nothing_was_sent()

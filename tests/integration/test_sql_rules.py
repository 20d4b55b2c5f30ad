"""What an expression may not do is refused by `validate`, and by a run that nobody validated before
anything is read or sent."""

import datetime as dt

import pytest

from shipper.config.pipeline import Pipeline
from shipper.driver.context import RunContext
from shipper.driver.gate_source import gate_source
from shipper.errors import ConfigError
from shipper.report.plan_result import PlannedFile, PlanResult
from shipper.report.run_folder import RunFolder
from shipper.windows.window import Window
from spark_jobs.expressions import refuse_unsafe_sql, sql_faults
from spark_jobs.session import session
from spark_jobs.spark_engine import SparkEngine

pytestmark = [pytest.mark.spark]


def pipeline(**more):
    base = {"pipeline": "web", "source": "/logs/", "clusters": ["c"]}
    return Pipeline.model_validate(
        {**base, **({} if "routes" in more else {"topic": "logs.web"}), **more}
    )


@pytest.fixture(scope="module")
def spark():
    found = session(pipeline())
    yield found
    found.stop()


def faults(spark, **more):
    return {
        fault.field: fault.message for fault in sql_faults(spark, pipeline(**more)) if fault.refused
    }


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("rand()", "each time the line is read"),
        ("rand(42)", "each time the line is read"),
        ("uuid()", "each time the line is read"),
        ("shuffle(array(value))", "each time the line is read"),
        ("transform(array(1), x -> x + rand())", "each time the line is read"),
        ("aes_encrypt(value, '0000111122223333')", "each time the line is read"),
        ("now()", "the moment when the line is read"),
        ("current_timestamp()", "the moment when the line is read"),
        ("current_date", "the moment when the line is read"),
        ("date_add(curdate(), 1)", "the moment when the line is read"),
        ("unix_timestamp()", "the moment when the line is read"),
        ("localtimestamp()", "the moment when the line is read"),
        ("current_time()", "the moment when the line is read"),
        ("timestamp'now'", "the moment when the line is read"),
        ("date 'today'", "the moment when the line is read"),
        ("cast(concat('to', 'day') AS DATE)", "the moment when the line is read"),
        ("cast(lower('NOW') AS TIMESTAMP)", "the moment when the line is read"),
        ("cast('yesterday' as timestamp)", "the moment when the line is read"),
        ("to_timestamp('now')", "the moment when the line is read"),
        ("monotonically_increasing_id()", "how Spark distributes the work"),
        ("spark_partition_id()", "how Spark distributes the work"),
        ("input_file_name()", "use file_path or file_name"),
        ("input_file_block_start()", "use file_path or file_name"),
        ("(select max(value) from text.`/etc/hostname`)", "reads other data"),
        ("exists(select 1)", "reads other data"),
        ("reflect('java.lang.System', 'exit', 1)", "calls Java code"),
        ("java_method('java.lang.System', 'getenv', 'PATH')", "calls Java code"),
        ("try_reflect('java.lang.System', 'getenv', 'PATH')", "calls Java code"),
        ("explode(array(value, 'b'))", "several rows of one line"),
        ("stack(2, value, 'b')", "several rows of one line"),
        ("window(timestamp'2026-01-01', '10 minutes', '5 minutes')", "several rows of one line"),
        ("row_number() over (order by value)", "reads other lines"),
        ("max(value)", "reads other lines"),
        ("count(*) over ()", "reads other lines"),
        ("*", "columns where one value is needed"),
        ("session_user()", "on the place and the user"),
        ("version()", "on the place and the user"),
    ],
)
def test_what_does_not_give_one_value_of_its_line_alone_is_refused(spark, sql, why):
    assert why in faults(spark, records={"value": sql})["records.value"]


def test_it_is_refused_wherever_sql_may_stand(spark):
    found = faults(
        spark,
        records={
            "columns": {"a": "uuid()", "b": "concat(a, 'x')"},
            "drop": {"some": "rand() < 0.5"},
            "value": "concat(value, uuid())",
            "key": "uuid()",
            "headers": {"h": "uuid()"},
            "timestamp": "now()",
        },
        routes=[{"when": "rand() < 0.01", "topic": "debug"}, {"topic": "logs"}],
        clusters={"c": {"routes": [{"when": "rand() < 0.5", "topic": "a"}, {"topic": "b"}]}},
        gates={"source": [{"check": "condition", "name": "some", "sql": "rand() < 2"}]},
    )
    assert set(found) == {
        *(
            "records.columns.a",
            "records.drop.some",
            "records.value",
            "records.key",
            "records.headers.h",
            "records.timestamp",
        ),
        *("routes[0].when", "clusters.c.routes[0].when", "gates.source[0].sql"),
    }, "each where it stands, and b, which is made of a, not once more"


@pytest.mark.parametrize(
    "sql",
    [
        "value",
        "value = 'now'",
        "regexp_extract(file_path, 'host=([^/]+)', 1)",
        "pmod(xxhash64(value), 100) = 0",
        "to_timestamp('2026-11-01 00:00:00')",
        "timestamp'2026-11-01 06:00:00.125'",
        "aes_encrypt(value, '0000111122223333', 'ECB')",
        "to_json(struct(*))",
        "transform(split(value, ' '), x -> upper(x))[0]",
        "date_format(from_unixtime(1), 'yyyy')",
        "from_json(value, 'a int').a",
        "parse_url(value, 'HOST')",
        "CASE WHEN value = 'x' THEN raise_error('x') ELSE 'y' END",
        "to_json(struct(interval '1 day' as a, X'1F' as b, 1.2BD as c, date'2026-11-01' as d, "
        "map('a', 1) as e, array(1, null) as f))",
        "variant_get(try_parse_json(value), '$.a', 'string')",
        " OR ".join(f"value = '{n}'" for n in range(700)),
    ],
)
def test_what_does_is_taken(spark, sql):
    assert sql_faults(spark, pipeline(records={"value": sql})) == []


@pytest.mark.parametrize(
    ("records", "field", "why"),
    [
        (
            {"value": "cast('abc' as int)"},
            "records.value",
            "fails for every line: [CAST_INVALID_INPUT]",
        ),
        (
            {"value": "regexp_extract(value, '([x', 1)"},
            "records.value",
            "'([x' is not a Java regular expression: Unclosed",
        ),
        (
            {"drop": {"x": "value rlike '(x'"}},
            "records.drop.x",
            "'(x' is not a Java regular expression: Unclosed",
        ),
        ({"value": "length(max(value)) + length(value)"}, "records.value", "reads other lines"),
        (
            {"timestamp": "value"},
            "records.timestamp",
            "is of type string; it must be timestamp; write `to_timestamp(",
        ),
        ({"value": "value in (select 'a')"}, "records.value", "[UNSUPPORTED_TYPED_LITERAL]"),
    ],
)
def test_what_would_fail_at_the_first_line_is_a_fault(spark, records, field, why):
    found = {fault.field: fault.message for fault in sql_faults(spark, pipeline(records=records))}
    assert why in found[field]
    assert "GROUP BY" not in found[field]


def test_sql_cannot_read_the_environment_or_sparks_settings(spark):
    frame = spark.range(1).selectExpr(
        "'${env:PATH}' as environment", "'${spark.app.name}' as setting"
    )
    assert frame.head().asDict() == {"environment": "${env:PATH}", "setting": "${spark.app.name}"}


def test_a_run_that_nobody_validated_is_refused_before_the_gate_reads_a_line(spark, tmp_path):
    config = tmp_path / "config" / "pipelines"
    config.mkdir(parents=True)
    (config / "web.yaml").write_text(
        "pipeline: web\nsource: /logs/\ntopic: t\nrecords:\n  drop:\n    some: rand() < 0.5\n"
    )
    unsafe = pipeline(records={"drop": {"some": "rand() < 0.5"}})
    with pytest.raises(
        ConfigError,
        match=r"web\.yaml:6:11: records\.drop\.some: 'rand\(\) < 0\.5': it may give another value",
    ):
        refuse_unsafe_sql(spark, unsafe, tmp_path / "config")
    now = dt.datetime.now(dt.UTC)
    window = Window(now - dt.timedelta(hours=1), now)
    folder = RunFolder(str(tmp_path / "runs"), "web", window, "r")
    engine = SparkEngine(unsafe, spark=spark)
    context = RunContext(unsafe, {}, tmp_path / "config", window, folder, engine, ships=True)
    planned = PlanResult(
        **context.common("plan"),
        started_at=now,
        finished_at=now,
        status="succeeded",
        source="/logs/",
        files=[
            PlannedFile(
                path="/logs/no such file",
                uri="file:/logs/no",
                size_bytes=9,
                modified_ms=0,
                splits=1,
                format="plain",
            )
        ],
    )
    folder.write("plan", planned)
    with pytest.raises(ConfigError, match="may give another value"):
        gate_source(context, now)

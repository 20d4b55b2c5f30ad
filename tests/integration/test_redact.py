"""Redaction by the JVM against an implementation of its own in Python, and what of a line leaves
through which door."""

import random

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType
from shipper_tools.dev.console_consumer import read_records

from shipper.config.redact import Redaction
from spark_jobs.redact_column import redaction
from spark_jobs.session import session
from tests.samples.config import pipeline_of

from .redaction import redacted
from .world import World

KEY = "0123456789abcdef-of-a-test"
_HASH = {"key": KEY}
_RULES = ["email", "ipv4", "ipv6", "card", "bearer"]
_OWN = [
    {"regex": r"(user|pass)(word)?=(\S+)", "with": "$1$2=<$$>"},
    {"regex": r"(?<=session=)\w+", "hash": _HASH},
    {"regex": r"[äöü]+"},
    {"regex": "x*"},
]
_PARTS = [
    "a@b",
    "a.b-c+d@mail.example.com",
    "jörg@exämple.de",
    "x%40y.org",
    "x%40y@z.net",
    "@b.c",
    "a@b..c",
    "a@b.c._d@e.fg",
    "%41b@c.de",
    "a@",
    "%40",
    "10.0.0.1",
    "255.255.255.255",
    "256.1.1.1",
    "1.2.3.4.5",
    "1.2.3",
    "001.02.3.4",
    "v1.2.3.4",
    ".1.2.3.4.",
    "12.34.56.78:80",
    "1..2.3.4.5",
    "::1",
    "::",
    "fe80::1%eth0",
    "2001:db8::1",
    "2001:DB8:0:0:0:0:0:1",
    "1:2:3:4:5:6:7:8",
    "1:2:3:4:5:6:7:8:9",
    "12:34:56",
    "12:34:56.789",
    "std::vector",
    "Abc::Def",
    "::ffff:10.0.0.1",
    "::ffff:1.2.3.400",
    "peer:fe80::2:",
    "[2001:db8::1]:443",
    "aa:bb:cc:dd:ee:ff",
    "1::2::3",
    ":::1",
    "fe80::1.",
    "::1.2.3.4.5",
    "fe80::x",
    "64:ff9b::192.0.2.33",
    "4111111111111111",
    "4111 1111 1111 1111",
    "4111-1111-1111-1111",
    "4111-1111 1111 1111",
    "4111111111111112",
    "378282246310005",
    "3782 822463 10005",
    "30569309025904",
    "3056 930902 5904",
    "4222222222222",
    "4222 2222 2222 2",
    "6304 0000 0000 0000 000",
    "0.4111111111111111",
    "1.4111111111111111",
    "1700000000000",
    "2004 4111 1111 1111 1111",
    "41111111111111111111",
    "Bearer abc.DEF-123~+/=",
    "bearer:x",
    "BEARER%20t0ken",
    "xbearer y",
    "Bearer",
    "bearer  ",
    "Authorization=Bearer+q",
    "bearer bearer bearer z",
    "user=joe",
    "password=p$1",
    "session=ab12",
    "äöü",
    "日本",
    "😀",
    "",
    " ",
    "  ",
    "\t",
    '"',
    "'",
    ",",
    ".",
    ":",
    "-",
    "%",
    "=",
    "/",
    "0",
    "7",
    "a",
    "é",
]
_ALPHABETS = [
    "0123456789 -",
    "0123456789.",
    "0123456789abcdefG:.",
    "ab.@%40_-ö ",
    "bearBEAR :=+x",
    "4 1-",
    "\u00e9\ufffd\U0001f600a@.",
]


@pytest.fixture(scope="module")
def spark():
    found = session(pipeline_of())
    yield found
    found.stop()


def some_lines(seed, count):
    rng = random.Random(seed)
    found = [part.encode() for part in _PARTS]
    while len(found) < count:
        kind = rng.random()
        if kind < 0.6:
            text = (
                rng.choice(["", " ", ""])
                .join(rng.choice(_PARTS) for _ in range(rng.randint(1, 6)))
                .encode()
            )
        else:
            alphabet = rng.choice(_ALPHABETS)
            text = "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 60))).encode()
        for _ in range(rng.choice((0, 0, 0, 1, 2))):  # no UTF-8 any more, most likely
            at = rng.randint(0, len(text))
            text = (
                text[:at]
                + bytes([rng.choice((0x80, 0xC3, 0xE2, 0xED, 0xF0, 0xFF, 0xA0, 0x00, 0x20))])
                + text[at + rng.randint(0, 1) :]
            )
        found.append(text)
    return found


def by_spark(spark, rules, lines):
    frame = spark.createDataFrame(
        [(line,) for line in lines], StructType([StructField("line", BinaryType())])
    )
    return [bytes(row[0]) for row in frame.select(redaction(spark, rules)(frame["line"])).collect()]


@pytest.mark.spark
@pytest.mark.parametrize(
    "written",
    [
        *([rule] for rule in _RULES),
        [{"rule": rule, "hash": _HASH} for rule in _RULES],
        [*_OWN, *_RULES],
    ],
    ids=lambda written: "+".join(
        rule if isinstance(rule, str) else str(rule.get("rule", "regex")) for rule in written
    ),
)
def test_the_jvm_finds_what_python_finds_and_leaves_every_other_byte(spark, written):
    rules = [Redaction.model_validate(rule) for rule in written]
    lines = some_lines(seed=len(str(written)), count=1_500)
    found = by_spark(spark, rules, lines)
    wrong = [
        (line, is_, should)
        for line, is_ in zip(lines, found, strict=True)
        if is_ != (should := redacted(line, rules))
    ]
    assert not wrong, wrong[:10]
    assert sum(line != is_ for line, is_ in zip(lines, found, strict=True)) > 100


@pytest.mark.spark
@pytest.mark.long
def test_a_hash_stays_whole_in_every_order_of_rules(spark):
    """Among these are addresses whose hash holds what looks like the number of a card."""
    lines = [
        b"from 10.%d.%d.%d to user%d@example.com paid 4111 1111 1111 1111"
        % (n % 250, n // 250 % 250, n // 62_500, n)
        for n in range(0, 200_000, 40)
    ]
    hashed = [{"rule": rule, "hash": _HASH} for rule in ("ipv4", "email")]
    others = ["card", {"regex": "[0-9a-f]{32}"}, "ipv6", "bearer"]
    expected = [
        redacted(line, [Redaction.model_validate(rule) for rule in [*hashed, "card"]])
        for line in lines
    ]
    for order in ([*hashed, *others], [*others, *hashed], [others[0], *hashed, *others[1:]]):
        for written in (order, order[::-1]):
            rules = [Redaction.model_validate(rule) for rule in written]
            assert by_spark(spark, rules, lines) == expected


@pytest.mark.spark
@pytest.mark.long
def test_groups_of_a_match_are_the_records_own_and_are_searched_by_later_rules(spark):
    rules = [
        Redaction.model_validate(rule)
        for rule in ({"regex": r"(to=\S+ )key=\w+", "with": "$1key=x@y.zz"}, "email")
    ]
    [found] = by_spark(spark, rules, [b"to=a@b.cc key=k"])
    assert found == b"to=[email] key=x@y.zz"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("rule", "line", "expected"),
    [
        ("email", b"from=<joe.doe+x@mail.example.com>, to q%40w.de", b"from=<[email]>, to [email]"),
        ("ipv4", b"10.1.2.3 - - [v 1.2.3.4.5] 10.0.0.256 [::ffff:1.2.3.4]", b"[ipv4] - - [v 1.2.3.4.5] 10.0.0.256 [::ffff:[ipv4]]"),  # noqa: E501
        ("ipv6", b"12:34:56 [2001:db8::1]:443 fe80::1%eth0 ::ffff:1.2.3.4", b"12:34:56 [[ipv6]]:443 [ipv6]%eth0 [ipv6]"),  # noqa: E501
        ("card", b"paid 4111 1111 1111 1111 and 4111111111111112 at 1700000000004", b"paid [card] and 4111111111111112 at 1700000000004"),  # noqa: E501
        ("card", b"x4111111111111111 4111111111111111y _4111111111111111 (4111111111111111)", b"x4111111111111111 4111111111111111y _4111111111111111 ([card])"),  # noqa: E501
        ("bearer", b"Authorization: Bearer eyJh.eyJz-_.x== GET", b"Authorization: Bearer [bearer] GET"),  # noqa: E501
    ],
)  # fmt: skip
@pytest.mark.long
def test_what_each_rule_is_for(spark, rule, line, expected):
    assert by_spark(spark, [Redaction.model_validate(rule)], [line]) == [expected]


@pytest.mark.spark
@pytest.mark.long
def test_a_megabyte_without_anything_in_it_takes_no_time(spark):
    """No rule's time grows with the square of a line's length."""
    lines = [
        part * (2**20 // len(part))
        for part in (
            b"a",
            b"1",
            b"a.",
            b"1.",
            b"a:",
            b"1:",
            b"4111 ",
            b"%40a",
            b"a@",
            b"\xff",
            b"bearer",
            b"::",
            b"%",
            b"1-",
        )
    ]
    rules = [Redaction.model_validate(rule) for rule in _RULES]
    assert [len(line) > 0 for line in by_spark(spark, rules, lines)] == [True] * len(
        lines
    )  # or pytest's timeout


@pytest.mark.spark
@pytest.mark.long
def test_no_key_is_in_what_spark_shows_of_a_plan(spark):
    rules = [Redaction.model_validate({"rule": "ipv4", "hash": _HASH})]
    frame = spark.createDataFrame([(b"10.0.0.1",)], StructType([StructField("line", BinaryType())]))
    plan = frame.select(redaction(spark, rules)(frame["line"]))._jdf.queryExecution()
    shown = [plan.toString(), plan.analyzed().toJSON(), plan.executedPlan().toJSON()]
    assert all("redact" in text and KEY not in text for text in shown)
    assert KEY not in repr(rules)


@pytest.mark.spark
@pytest.mark.kafka
def test_nothing_leaves_with_what_is_redacted_by_any_door(tmp_path, kafka, monkeypatch):
    """Value, key, header, and the quarantine topic, whatever the reason; conditions see the line as
    it is. A rerun sends nothing."""
    monkeypatch.setenv("TEST_REDACT_KEY", KEY)
    world = World(tmp_path, kafka.bootstrap, topics={"": 2, "-internal": 1, "-broken": 1})
    world.write_pipeline(
        topic=None,
        routes=[
            {"when": "client LIKE '10.%'", "topic": world.topic("-internal")},
            {"topic": world.topic()},
        ],
        records={
            "parse": {"regex": r"^(?<client>\S+) (?<rest>.+)"},
            "drop": {"probe": "client = '10.9.9.9'"},
            "max_line": "1kB",
            "redact": [{"rule": "ipv4", "hash": {"key": "${TEST_REDACT_KEY}"}}, "email"],
            "key": "client",
            "headers": {"who": "concat('client ', client)"},
        },
        quarantine={"topic": world.topic("-broken"), "max_rate": 1.0, "keep": "1kB"},
    )
    lines = [b"10.0.0.%d joe@example.com said \xff" % n for n in range(1, 40)] + [
        b"10.9.9.9 probe",
        b"192.0.2.1 jim@example.com",
        b"eve@example.com",
    ]
    world.write_log(
        "a.log",
        b"\n".join([*lines, b"192.0.2.2 " + b"x" * 980 + b" eve@example.com" + b"y" * 2000])
        + b"\n",
    )
    account = world.run()
    assert account["filtered"] == {"probe": 1}
    assert account["quarantined"] == {"unparseable": 1, "too_large": 1}
    rules = [Redaction.model_validate(rule) for rule in ({"rule": "ipv4", "hash": _HASH}, "email")]
    internal = read_records(world.bootstrap, world.topic("-internal"))
    assert {record.value for record in internal} == {redacted(line, rules) for line in lines[:39]}
    assert {record.key for record in internal} == {
        redacted(line.split()[0], rules) for line in lines[:39]
    }
    assert {dict(record.headers)["who"] for record in internal} == {
        redacted(b"client " + line.split()[0], rules) for line in lines[:39]
    }
    (other,) = read_records(world.bootstrap, world.topic())
    assert other.value == redacted(lines[40], rules)
    broken = {
        dict(record.headers)["shipper-reason"]: record.value
        for record in read_records(world.bootstrap, world.topic("-broken"))
    }
    assert broken == {b"unparseable": b"[email]", b"too_large": b""}
    left = b"".join(path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file())
    assert KEY.encode() not in left
    assert b"joe@" not in left
    assert world.run()["delivered"] == 0

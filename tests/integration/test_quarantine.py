"""Rules, parsing and quarantine on real servers: files in, an independent reader out."""

import base64
import json
import random
import re
import shlex
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from shipper_tools.dev.console_consumer import read_records

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DOCS = Path(__file__).parents[2] / "docs"
BOM = b"\xef\xbb\xbf"
REGEX = r"^(?<service>[^ ]*) (?<status>\d{3}) "


def parsed_and_routed(world, **changes):
    spec = {
        "records": {
            "max_line": "4MiB",
            "parse": {"regex": REGEX},
            # What a line says decides: `@x` is topic x.
            "columns": {
                "target": "CASE WHEN service LIKE '@%' THEN substr(service, 2) "
                f"WHEN service <> 'nobody' THEN concat('{world.name}-', service) END"
            },
            "drop": {
                "comments": "value like '#%'",
                "health": "service = 'health' and status = '200'",
            },
        },
        "topic": None,
        "routes": [
            {"when": "status >= '500'", "topic": world.topic("-errors")},
            {"topic": "{target}", "matching": "[^b]+"},
        ],
        "limits": {"max_topics": 1},
        "quarantine": {"topic": world.topic("-q"), "max_rate": 0.5, "keep": "20B"},
        "source": {"path": "logs", "settle": "0s", "split_size": "64KiB"},
    }
    world.write_pipeline(**(spec | changes))


def quarantined(world):
    return list(read_records(world.bootstrap, world.topic("-q")))


def result_of(world, step):
    latest = max(
        world.root.glob(f"runs/{world.name}/*/*/{step}.json"), key=lambda path: path.stat().st_mtime
    )
    return json.loads(latest.read_text())


def quarantine(world, *arguments):
    return world.shipper("quarantine", *arguments)


def test_each_line_is_shipped_dropped_or_quarantined_once_and_every_count_agrees(make_world):
    world = make_world(topics={"-a": 2, "-errors": 1, "-q": 2})
    parsed_and_routed(world)
    large = random.Random(3).randbytes(1_500_000).replace(b"\n", b"").replace(b"\r", b"")
    good = [b"a 200 line %d of many that are as they should be" % n for n in range(9_000)]
    bad = {
        b"no such line": ("unparseable", None),
        b"\xffgarbage that is longer than is kept": ("unparseable", None),
        b"nobody 200 has no topic": ("unroutable", None),
        b"x/y 200 is no topic's name": ("unroutable", None),
        b"q 200 would be taken for quarantine": ("unroutable", None),
        f"@_shipper.{world.name} 200 is the ledger".encode(): ("unroutable", None),
        b"@__transaction_state 200 is Kafka's": ("unroutable", None),
        b"b 200 does not match": ("unroutable", None),
        b"a 200 " + large: ("too_large", "-a"),
    }
    dropped = [b"# a comment", b"health 200 ok"] * 500 + [b"# nobody"]
    fits = [b"a 200 " + b"x" * 2_000_000, b"health 503 oh", b"a 200 caf\xe9"]
    lines = [*good, *bad, *dropped, *fits]
    random.Random(5).shuffle(lines)
    beyond = b"c 200 one topic more than may be"
    lines.append(beyond)
    bad[beyond] = ("too_many_topics", "-c")
    world.write_log("many.log", b"\n".join(lines))
    world.write_log("bom.log", BOM + b"unparseable\na 200 after it\n")
    bad[BOM + b"unparseable"] = ("unparseable", None)
    shipped = Counter([*good, *fits, b"a 200 after it"])

    account = world.run()

    assert world.read("-a") + world.read("-errors") == shipped
    assert world.read("-errors") == Counter([b"health 503 oh"])
    found = quarantined(world)
    run_id = result_of(world, "ship.local")["run_id"]
    assert Counter(record.value for record in found) == Counter(value[:20] for value in bad)
    assert {record.key for record in found} == {None}
    whole = {value[:20]: value for value in bad}
    for record in found:
        reason, topic = bad[whole[record.value]]
        headers = dict(record.headers)
        name = "bom.log" if record.value.startswith(BOM) else "many.log"
        content = (world.logs / name).read_bytes()
        assert headers.pop("shipper-cut") == (
            b"true" if len(whole[record.value]) > 20 else b"false"
        )
        start = int(headers.pop("shipper-split"))
        split = content[0 if start == 0 else content.index(b"\n", start) + 1 :].split(b"\n")
        assert split[int(headers.pop("shipper-record")) - 1] == whole[record.value]
        expected = {
            "shipper-reason": reason,
            "shipper-pipeline": world.name,
            "shipper-file": f"file:{world.logs / name}",
            "shipper-run": run_id,
            **({"shipper-topic": world.topic(topic)} if topic else {}),
        }
        assert headers == {key: value.encode() for key, value in expected.items()}

    reasons = dict(Counter(reason for reason, _ in bad.values()))
    filtered = {"comments": 501, "health": 500}
    assert (account["filtered"], account["quarantined"]) == (filtered, reasons)
    assert account["read"] == len(lines) + 2
    assert account["delivered"] == shipped.total()
    ship = result_of(world, "ship.local")
    spark = {f"filtered: {rule}": count for rule, count in filtered.items()}
    spark |= {
        f"quarantined: {reason}": count
        for reason, count in reasons.items()
        if not reason.startswith("too_")
    }
    assert ship["observed"] == {"read": len(lines) + 2, **spark}
    assert {topic["topic"]: topic["quarantine"] for topic in ship["topics"]} == {
        world.topic("-a"): False, world.topic("-errors"): False, world.topic("-q"): True,
    }  # fmt: skip
    assert account["topics"][world.topic("-q")]["ledger"] == len(bad)
    many = next(file for file in ship["files"] if file["path"].endswith("many.log"))
    assert many["filtered"] == filtered
    assert sum(many["quarantined"].values()) == len(bad) - 1

    # Nothing is read again, whatever was dropped or quarantined; and what is in quarantine counts
    # against a limit that is lower now.
    parsed_and_routed(world, quarantine={"topic": world.topic("-q"), "max_rate": 0.0001})
    world.fails(
        code=1,
        says=r"11 of 9,015 records of pipeline .* went to quarantine \(0\.12%\), and "
        r"`quarantine\.max_rate` allows 0\.01%",
    )
    assert result_of(world, "ship.local")["read"] == 0
    parsed_and_routed(world)
    again = world.run()
    assert (again["read"], again["delivered"], again["before"]) == (
        0,
        0,
        shipped.total() + len(bad),
    )
    assert world.read("-a") + world.read("-errors") == shipped
    assert len(quarantined(world)) == len(bad)
    assert world.shipper("ledger", "verify", world.name).returncode == 0

    what_is_in_quarantine_is_listed_and_shown(world, len(bad))


def what_is_in_quarantine_is_listed_and_shown(world, bad):
    """What follows needs nothing but what is in quarantine now."""
    listed = json.loads(quarantine(world, "list", world.name, "--json").stdout)["local"]
    assert sum(row["records"] for row in listed) == bad
    assert sum((Counter(row["reasons"]) for row in listed), Counter()) == {
        "unparseable": 3,
        "unroutable": 6,
        "too_large": 1,
        "too_many_topics": 1,
    }
    assert len(quarantine(world, "show", world.name, "--json").stdout.splitlines()) == bad

    done = quarantine(world, "list", world.name, "--reason", "unparsable")
    assert done.returncode == 2
    assert "'unparseable'" in done.stderr

    # Somebody else may write to the topic, with shipper's own headers: what they put there is not
    # corrected and shipped unnoticed.
    one = next(record for record in quarantined(world) if record.value == b"no such line")
    producer = Producer({"bootstrap.servers": world.bootstrap})
    producer.produce(world.topic("-q"), b"a 200 forged", headers=list(one.headers))
    assert producer.flush(30) == 0
    exported = world.root / "forged.jsonl"
    for command in (("show",), ("export", "--to", str(exported))):
        done = quarantine(world, command[0], world.name, *command[1:])
        assert done.returncode == 1
        assert "many.log (split at byte" in " ".join(done.stderr.split())
        assert "by the ledger's checksum, topic" in " ".join(done.stderr.split())
    assert len(exported.read_text().splitlines()) == bad + 1


def on_the_page(world, folder):
    """Return the commands of docs/how-to/quarantine.md that correct and ship records, and the
    pipeline there, with names of this test."""
    text = (DOCS / "how-to" / "quarantine.md").read_text().partition("## Correct and ship them")[2]
    for there, here in {
        "web_access": world.name,
        "logs.web": world.topic("-a"),
        "errors.web": world.topic("-errors"),
        "frankfurt": "local",
        "corrected/": f"{folder}/",
    }.items():
        text = text.replace(there, here)
    commands = "".join(re.findall(r"```sh\n(.*?)```", text, re.S))
    [pipeline] = re.findall(r"```yaml\n(.*?)```", text, re.S)
    return [shlex.split(line)[1:] for line in commands.splitlines()], pipeline


@pytest.mark.long
def test_corrected_records_are_shipped_as_the_page_says(make_world):
    world = make_world(topics={"-a": 3, "-errors": 1, "-q": 1})
    now = int(time.time() * 1000)
    lines = [
        b"ann a %d x" % now,
        b"bob zzz %d joe@example.com" % now,
        b"broken \xff",
        'broken \U0001f600 \x00\t"\\'.encode(),
        b"broken, and stays",
        b"cut " + b"y" * 60_000,
    ]
    world.write_log("a.log", b"\n".join(lines) + b"\n")
    world.write_pipeline(
        topic=None,
        records={
            "parse": {"regex": r"^(?<client>\w+) (?<target>\w+) (?<at>\d+)"},
            "redact": ["email"],
            "key": "client",
            "headers": {"client": "client"},
            "timestamp": "timestamp_millis(cast(at AS bigint))",
        },
        routes=[{"topic": f"{world.name}-{{target}}", "topics": [world.topic("-a")]}],
        quarantine={"topic": world.topic("-q"), "max_rate": 1.0, "keep": "300B"},
    )
    world.run()
    before = read_records(world.bootstrap, world.topic("-a"))
    assert [record.value for record in before] == lines[:1]

    folder = world.root / "corrected"
    [export, preview, run], pipeline = on_the_page(world, folder)
    (world.root / "config" / "pipelines" / f"{world.name}_corrected.yaml").write_text(pipeline)
    everything = [word for word in export if word not in ("--reason", "unparseable")]
    only, to = world.shipper(*export), Path(export[-1])
    assert (only.returncode, len(to.read_text().splitlines())) == (0, 4), only.stderr
    again = world.shipper(*everything)
    assert (again.returncode, len(to.read_text().splitlines())) == (2, 4)
    assert "SHIP-103" in again.stderr
    assert world.shipper(*everything, "--force").returncode == 0
    found = [json.loads(line) for line in to.read_text().splitlines()]
    assert {name: found[0][name] for name in ("pipeline", "cluster", "file", "split")} == {
        "pipeline": world.name,
        "cluster": "local",
        "file": f"file:{world.logs}/a.log",
        "split": 0,
    }
    assert [one["record"] for one in found] == [2, 3, 4, 5, 6]
    bob, not_utf8, smile, stays, cut = found
    assert (bob["key"], bob["headers"], bob["timestamp_ms"]) == ("bob", {"client": "bob"}, now)
    assert base64.b64decode(not_utf8["value_base64"]) == lines[2]

    # A cut line stops the run before the first byte, also where no sample would find it.
    a, errors = world.topic("-a"), world.topic("-errors")
    bob |= {"topic": a, "value": bob["value"].replace("zzz", "a")}
    sent = [bob, not_utf8 | {"topic": errors}, smile | {"topic": a, "key": "smile"}]
    long = [smile | {"topic": a, "value": "x" * 900_000}] * 13
    to.write_text("".join(json.dumps(one) + "\n" for one in [*sent, *long, cut | {"topic": a}]))
    assert stays["cut"] is False
    blocked = world.shipper(*run)
    assert blocked.returncode == 1, blocked.stderr[-4000:]
    assert [record.value for record in read_records(world.bootstrap, a)] == lines[:1]

    to.write_text("".join(json.dumps(one) + "\n" for one in sent))
    previewed = world.shipper(*preview)
    assert previewed.returncode == 0, previewed.stderr[-4000:]
    for _ in range(2):
        done = world.shipper(*run)
        assert done.returncode == 0, done.stderr[-4000:]
    [arrived] = read_records(world.bootstrap, errors)
    assert (arrived.value, arrived.key) == (lines[2], None)
    by_key = {record.key: record for record in read_records(world.bootstrap, a)}
    assert world.read("-a").total() == len(by_key) == 3
    assert by_key[b"smile"].value == lines[3]
    assert by_key[b"bob"].value == b"bob a %d [email]" % now
    assert by_key[b"bob"].timestamp_ms == now
    assert dict(by_key[b"bob"].headers) == {"client": b"bob"}
    assert world.shipper("ledger", "verify", f"{world.name}_corrected").returncode == 0


@pytest.mark.long
def test_records_that_fail_a_check_of_severity_quarantine_go_there_with_its_name(make_world):
    world = make_world(topics={"": 1, "-q": 1})
    checks = [
        {"check": "matches", "regex": "^[a-z]+ ", "severity": "quarantine"},
        {"check": "condition", "name": "small", "sql": "size < 1000", "severity": "quarantine"},
        {"check": "not_null", "column": "key", "severity": "quarantine"},
    ]
    world.write_pipeline(
        records={
            "columns": {"size": "try_cast(get(split(value, ' '), 1) AS INT)"},
            "drop": {"comments": "value like '#%'"},
            "key": "nullif(split(value, ' ')[0], 'nobody')",
        },
        quarantine={"topic": world.topic("-q"), "max_rate": 0.9, "keep": "20B"},
        gates={"source": [{"check": "rows", "on": "full"}, *checks]},
    )
    good = [b"web %d" % n for n in range(500)]
    bad = {
        b"WEB 7": "matches(value)",
        b"web x": "condition(small)",
        b"web 1000": "condition(small)",
        b"nobody 5": "not_null(key)",
    }
    world.write_log("a.log", b"\n".join([*good[:250], *bad, b"# 1 2 3", *good[250:]]))

    account = world.run()

    assert world.read() == Counter(good)
    assert {
        record.value: dict(record.headers)["shipper-reason"].decode()
        for record in quarantined(world)
    } == bad
    assert account["quarantined"] == dict(Counter(bad.values()))
    assert account["filtered"] == {"comments": 1}
    gate = result_of(world, "gate_source")
    assert [
        (check["check"], check["passed"], check["severity"]) for check in gate["checks"][1:]
    ] == [
        ("matches(value)", False, "quarantine"),
        ("condition(small)", False, "quarantine"),
        ("not_null(key)", False, "quarantine"),
    ]
    assert gate["checks"][0]["observed"] == "504 rows in all files", (
        "what is dropped is not looked at"
    )
    observed = result_of(world, "ship.local")["observed"]
    assert {name: observed[name] for name in observed if name.startswith("quarantined")} == {
        f"quarantined: {reason}": count for reason, count in Counter(bad.values()).items()
    }
    assert world.run()["read"] == 0

"""Rules, parsing and quarantine on real servers: files in, an independent reader out."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Producer
from shipper_tools.dev.console_consumer import ReadRecord, read_records

from .world import World

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

BOM = b"\xef\xbb\xbf"
REGEX = r"^(?<service>[^ ]*) (?<status>\d{3}) "


def parsed_and_routed(world: World, **changes: Any) -> None:
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


def quarantined(world: World) -> list[ReadRecord]:
    return list(read_records(world.bootstrap, world.topic("-q")))


def result_of(world: World, step: str) -> dict[str, Any]:
    latest = max(
        world.root.glob(f"runs/{world.name}/*/*/{step}.json"), key=lambda path: path.stat().st_mtime
    )
    return json.loads(latest.read_text())


def quarantine(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
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

    replays(world, shipped, len(bad))


def replays(world: World, shipped: Counter[bytes], bad: int) -> None:
    """What follows needs nothing but what is in quarantine now."""
    listed = json.loads(quarantine(world, "list", world.name, "--json").stdout)["local"]
    assert sum(row["records"] for row in listed) == bad
    assert sum((Counter(row["reasons"]) for row in listed), Counter()) == {
        "unparseable": 3,
        "unroutable": 6,
        "too_large": 1,
        "too_many_topics": 1,
    }
    assert "too_large 1" in " ".join(quarantine(world, "list", world.name).stdout.split())
    assert "no such line" in quarantine(world, "show", world.name).stdout

    records = [
        json.loads(line)
        for line in quarantine(world, "show", world.name, "--json").stdout.splitlines()
    ]
    assert len(records) == bad
    path = world.root / "repaired.jsonl"
    as_shown = path.with_name("as-shown.jsonl")
    as_shown.write_text("\n".join(map(json.dumps, records)))
    refused = quarantine(world, "replay", world.name, str(as_shown))
    assert refused.returncode == 2
    assert "Nothing was sent" in " ".join(refused.stderr.split())

    by_value = {record.get("value"): record for record in records}
    changes = {
        "no such line": {"value": "a 200 repaired é"},
        "nobody 200 has no to": {"value_base64": "YSAyMDAg//8=", "key": "k"},
    }
    repaired = [
        by_value[value] | {"topic": world.topic("-a"), "cut": False, "value": None} | change
        for value, change in changes.items()
    ]
    path.write_text("\n".join(map(json.dumps, repaired[:1])))
    assert (
        "1 record sent; 0 sent before" in quarantine(world, "replay", world.name, str(path)).stdout
    )
    path.write_text("\n".join(map(json.dumps, repaired)))
    second = quarantine(world, "replay", world.name, str(path))
    assert "1 record sent; 1 sent before" in second.stdout, second.stderr
    assert "skipped: file:" in second.stderr
    assert world.read("-a") + world.read("-errors") == shipped + Counter(
        ["a 200 repaired é".encode(), b"a 200 \xff\xff"]
    )
    [with_key] = [
        record for record in read_records(world.bootstrap, world.topic("-a")) if record.key
    ]
    assert (with_key.key, with_key.value) == (b"k", b"a 200 \xff\xff")

    assert len(quarantine(world, "show", world.name, "--json").stdout.splitlines()) == bad - 2
    assert (
        len(quarantine(world, "show", world.name, "--json", "--replayed").stdout.splitlines())
        == bad
    )
    path.write_text(json.dumps(repaired[0] | {"record": 1_000_000}))
    assert "is not in quarantine" in quarantine(world, "replay", world.name, str(path)).stderr
    path.write_text(json.dumps(repaired[0] | {"topic": world.topic("-q")}))
    assert "SHIP-116" in " ".join(quarantine(world, "replay", world.name, str(path)).stderr.split())
    # A replay is a run: the next ship takes over from it, and finds that all is there.
    assert world.run()["delivered"] == 0

    # Somebody else may write to the topic, with shipper's own headers: what they put there is not
    # repaired and replayed unnoticed.
    assert quarantine(world, "show", world.name).returncode == 0
    one = next(record for record in quarantined(world) if record.value == b"no such line")
    producer = Producer({"bootstrap.servers": world.bootstrap})
    producer.produce(world.topic("-q"), b"a 200 forged", headers=list(one.headers))
    assert producer.flush(30) == 0
    shown = quarantine(world, "show", world.name, "--replayed")
    assert shown.returncode == 1
    assert "many.log (split at byte" in " ".join(shown.stderr.split())
    assert "by the ledger's checksum, topic" in " ".join(shown.stderr.split())


def shown(world: World, *arguments: str) -> dict[str, dict[str, Any]]:
    """What `show --json` writes, by the beginning of the value."""
    found = [
        json.loads(line)
        for line in quarantine(world, "show", world.name, "--json", *arguments).stdout.splitlines()
    ]
    return {record["value"][:6]: record for record in found}


def replay_of(world: World, *records: dict[str, Any], code: int = 0) -> dict[str, Any]:
    path = world.root / "repaired.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    done = quarantine(world, "replay", world.name, str(path), "--json")
    assert done.returncode == code, done.stderr[-4000:]
    return json.loads(done.stdout) if code == 0 else {"said": " ".join(done.stderr.split())}


def test_a_replay_sends_the_record_that_would_have_been_shipped_or_says_why_not(make_world):
    world = make_world(topics={"-a": 3, "-q": 1})
    spec = {
        "topic": None,
        "records": {
            "parse": {"regex": r"^(?<user>\w+) (?<target>\w+) (?<at>\d+)"},
            "redact": ["email"],
            "key": "user",
            "headers": {
                "target": "target",
                "mail": "regexp_extract(value, ' ([^ @]++@[^ ]++)', 1)",
            },
            "timestamp": "timestamp_millis(cast(at AS bigint))",
        },
        "routes": [{"topic": f"{world.name}-{{target}}", "topics": [world.topic("-a")]}],
    }
    now = int(time.time() * 1000)
    lines = [
        b"ann a %d x" % now,
        b"bob zzz %d joe@example.com" % now,
        b"broken",
        b"cut " + b"y" * 60_000,
        b"max " + b"z" * 1_200_000,
    ]
    world.write_log("a.log", b"\n".join(lines) + b"\n")
    world.write_pipeline(
        **spec, quarantine={"topic": world.topic("-q"), "max_rate": 1.0, "keep": "300B"}
    )
    world.run()

    # What was cut is known by the record, whatever is kept of others by now.
    world.write_pipeline(
        **spec, quarantine={"topic": world.topic("-q"), "max_rate": 1.0, "keep": "400kB"}
    )
    found = shown(world)
    assert {value: record["cut"] for value, record in found.items()} == {
        "bob zz": False,
        "broken": False,
        "cut yy": True,
        "": True,
    }
    for value in ("cut yy", ""):
        refused = replay_of(world, found[value] | {"topic": world.topic("-a")}, code=2)
        assert f"record {found[value]['record']}" in refused["said"]

    # A record that is as broken as it was would go to quarantine again.
    broken = found["broken"] | {"topic": world.topic("-a")}
    assert "unparseable" in replay_of(world, broken, code=2)["said"]
    assert world.read("-a") == Counter(lines[:1])

    bob = found["bob zz"]
    assert (bob["key"], bob["timestamp_ms"], bob["headers"]) == (
        "bob",
        now,
        {"target": "zzz", "mail": "[email]"},
    )
    wrong = broken | {"value": f"eve a {now} wrong"}
    sent = replay_of(
        world, bob | {"topic": world.topic("-a"), "value": f"bob a {now} zed@example.com"}, wrong
    )
    assert (len(sent["sent"]), sent["corrected"], sent["skipped"]) == (2, [], [])
    again = replay_of(world, wrong)
    assert (again["sent"], again["corrected"], len(again["skipped"])) == ([], [], 1)

    # A better repair is sent as well, once.
    better = broken | {"value": f"eve a {now} right", "key": "eve"}
    assert [record["record"] for record in replay_of(world, better)["corrected"]] == [
        broken["record"]
    ]
    assert replay_of(world, better)["sent"] == []
    records = {record.value: record for record in read_records(world.bootstrap, world.topic("-a"))}
    assert set(records) == {
        lines[0],
        *(
            f"{text % now}".encode()
            for text in ("bob a %d [email]", "eve a %d wrong", "eve a %d right")
        ),
    }
    arrived = records[b"bob a %d [email]" % now]
    assert (arrived.key, arrived.timestamp_ms) == (b"bob", now)
    assert dict(arrived.headers) == {"target": b"zzz", "mail": b"[email]"}
    assert records[b"eve a %d right" % now].key == b"eve"
    assert world.run()["read"] == 0
    assert world.shipper("ledger", "verify", world.name).returncode == 0


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


@pytest.mark.long
def test_a_record_that_fits_its_topic_meanwhile_stays_in_quarantine_and_is_not_sent_twice(
    make_world,
):
    world = make_world(topics={"-a": 1, "-q": 1})
    spec = {
        "records": {"columns": {"service": "split_part(value, ' ', 1)"}, "max_line": "4MB"},
        "topic": None,
        "routes": [{"topic": f"{world.name}-{{service}}", "matching": ".+"}],
        "delivery": {
            "lease": "2s",
            "lease_wait": "30s",
            "metadata_wait": "3s",
            "transaction_timeout": "20s",
        },
    }
    large = b"a " + random.Random(3).randbytes(1_500_000).replace(b"\n", b"")
    lines = [b"a first", large, b"b has no topic yet", b"a last"]
    world.write_log("a.log", b"\n".join(lines) + b"\n")
    world.write_pipeline(**spec)
    world.fails(
        code=1,
        says=r"record number 2 of this chunk has 1,4.* does not fit topic .*-a even in a batch ",
    )
    # The quarantine came later: it changes nothing of what the ledger holds.
    world.write_pipeline(
        **spec, quarantine={"topic": world.topic("-q"), "max_rate": 1.0, "keep": "0B"}
    )
    world.fails(code=1, says=rf"topic {world.name}-b could not be written to")
    assert [record.value for record in quarantined(world)] == [b""]
    world.set_topic("max.message.bytes", "3000000", "-a")
    world.client.create_topics({world.topic("-b"): 1}, replication_factor=1)
    account = world.run()
    assert account["delivered"] + account["before"] == 4
    assert world.read("-a") == Counter([b"a first", b"a last"])
    assert world.read("-b") == Counter([b"b has no topic yet"])
    assert len(quarantined(world)) == 1
    assert world.run()["read"] == 0


def test_json_lines_become_columns_and_without_a_quarantine_a_line_that_is_none_fails_the_run(
    make_world,
):
    world = make_world(topics={"": 1, "-errors": 1, "-q": 1})
    spec = {
        "topic": None,
        "records": {
            "parse": {"json": "service STRING, status INT"},
            "drop": {"ok": "status = 204"},
            "key": "service",
        },
        "routes": [
            {"when": "status >= 500", "topic": world.topic("-errors")},
            {"topic": world.topic()},
        ],
    }
    good = [
        b'{"service": "a", "status": 200, "more": [1, {}]}',
        b'{"status": 503}',
        b' {"service": "b"} ',
    ]
    bad = [
        b'{"service": "a"',
        b'{"status": "many"}',
        b'[{"service": "a"}]',
        b'{"a": 1} and more',
        b"{}x",
        b"",
        b'"text"',
        b"null",
    ]
    world.write_log("a.log", b"\n".join([*good, b'{"status": 204}', *bad]) + b"\n")
    world.write_pipeline(**spec)
    world.fails(
        code=1,
        says=r"a\.log \(split at byte 0\), record 5: it is no JSON object: cut off at byte 15",
    )
    assert world.read() + world.read("-errors") == Counter()
    world.write_pipeline(**spec, quarantine={"topic": world.topic("-q"), "max_rate": 1.0})
    account = world.run()
    assert (account["filtered"], account["quarantined"]) == ({"ok": 1}, {"unparseable": len(bad)})
    assert {
        record.key: record.value for record in read_records(world.bootstrap, world.topic())
    } == {b"a": good[0], b"b": good[2]}
    assert world.read("-errors") == Counter([good[1]])
    assert Counter(record.value for record in quarantined(world)) == Counter(bad)

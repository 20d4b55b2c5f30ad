"""What a user reads when something in the configuration is wrong: the exact line, with file, line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from shipper.config import load_all, load_cluster, load_pipeline, locate
from shipper.errors import ConfigError
from tests.unit.test_checks import NAMES

RIGHT = """\
pipeline: web
source: s3a://logs/web/
topic: logs.web
clusters: [local]
"""
ALLOWED_CHECKS = ", ".join(NAMES)
LOCAL = "cluster: local\nbootstrap: 127.0.0.1:9092\n"


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "config"
    (folder / "pipelines").mkdir(parents=True)
    (folder / "clusters").mkdir()
    (folder / "clusters" / "local.yaml").write_text(LOCAL)
    return Path("config")


def faults_of(text: str | bytes, name: str = "web", kind: str = "pipelines") -> list[str]:
    """The faults of one file, without the part of the line that is the same for all."""
    path = Path("config", kind, f"{name}.yaml")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = [str(fault) for fault in load_all(Path("config")).faults]
    return [line.removeprefix(f"{path}:") for line in found if line.startswith(str(path))]


def pipeline(more: str) -> str:
    return RIGHT + more


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            pipeline("delivery:\n  chunk_sze: 8MB\n"),
            "6:3: delivery.chunk_sze: unknown key; did you mean 'chunk_size'? allowed: guarantee, ordering, tuning, chunk_size, "
            "lanes, batch_size, memory, partitions, rate_limit, compression, metadata_wait, on_recreated, stall_timeout, transaction_timeout, "
            "lease, lease_wait",
            id="unknown key",
        ),
        pytest.param(
            pipeline("limits: {max_bytess: 1GB}\n"),
            "5:10: limits.max_bytess: unknown key; did you mean 'max_bytes'? allowed: max_files, max_bytes, max_topics",
            id="unknown key in braces",
        ),
        pytest.param(
            pipeline("limits: {max_files_x: 1, max_bytes: 1GB}\n").replace("max_files_x", "files_at_most"),
            "5:10: limits.files_at_most: unknown key; allowed: max_files, max_bytes, max_topics",
            id="unknown key like no other",
        ),
        pytest.param(
            RIGHT.replace("source: s3a://logs/web/", "source: {path: x, include: ['*.log', '*.gz']}"),
            "2:19: source.include: found a list; expected one glob. Several belong at the end of `path`, as in `logs/web/{*.log,*.gz}`",
            id="a list of globs",
        ),
        pytest.param(pipeline("owner: [a, b]\n"), "5:1: owner: found a list; expected one text", id="a list for a text"),
        pytest.param(
            RIGHT.replace("source: s3a://logs/web/", "source: {path: x, settle_seconds: 10m}"),
            "2:19: source.settle_seconds: unknown key; did you mean 'settle'? "
            "allowed: path, s3, include, window_by, recursive, format, codec, csv, settle, split_size, lookback, on_replaced, on_renamed, "
            "on_unreadable, when_empty, formerly",
            id="name in code for the key",
        ),
        pytest.param(
            RIGHT.replace("source: s3a://logs/web/", 'source: {window_by: modified, path: "x/{window_start:%H}/"}'),
            "2:21: source.window_by: `modified` and the placeholder in `path` contradict each other: a file would have to be in the window's "
            "folder and be modified in the window too; remove the one or the other",
            id="two ways to find a window's files",
        ),
        pytest.param(
            pipeline("notify:\n  - {on: [failure, late], notifier: a.B}\n"),
            "6:20: notify[0].on[1]: `late` needs `schedule.deliver_within`: without it no run is ever late",
            id="late without a deadline",
        ),
        pytest.param(
            pipeline('schedule: {cron: "@daily", deliver_within: 1h}\nnotify:\n  - notifier: a.B\n'),
            "6:1: notify: `schedule.deliver_within` and no `notify` with `on: [late]`: nobody would hear of it; add one, or leave it out",
            id="deadline that nobody hears of",
        ),
        pytest.param(
            pipeline('schedule: {cron: "@daily", deliver_within: 1h}\n'),
            "1:1: notify: `schedule.deliver_within` and no `notify` with `on: [late]`: nobody would hear of it; add one, or leave it out",
            id="deadline without any notice",
        ),
        pytest.param(
            RIGHT.replace(
                "source: s3a://logs/web/",
                'schedule: {cron: "@daily", deliver_within: 5m}\nsource: {path: s3a://logs/web/, settle: 10m}\n'
                "notify: [{on: [late], notifier: a.B}]",
            ),
            "3:41: source.settle: every run would be late: a file is read 10m after it was modified at the earliest (`settle`), and "
            "`schedule.deliver_within` ends 5m after the window; raise that, or lower `settle`",
            id="deadline before files have settled",
        ),
        pytest.param(
            pipeline("notify:\n  - notifier: SlackNotifier\n"),
            "6:15: notify[0].notifier: found 'SlackNotifier'; write the full name of a class: "
            "airflow.providers.slack.notifications.slack.SlackNotifier",
            id="notifier without its module",
        ),
        pytest.param(
            pipeline("settle: 10m\n"),
            "5:1: settle: unknown key at the top; it belongs into `source`; check the indentation",
            id="key of a section at the top",
        ),
        pytest.param(
            pipeline("delivery:\n  compression: zst\n"),
            "6:16: delivery.compression: found 'zst'; did you mean 'zstd'? allowed: none, gzip, snappy, lz4, zstd",
            id="word that is not in the list",
        ),
        pytest.param(
            pipeline("gates:\n  source:\n    - check: files\n    - check: freshnes\n      max_age: 1h\n"),
            f"8:14: gates.source[1].check: unknown check 'freshnes'; did you mean 'freshness'? allowed: {ALLOWED_CHECKS}",
            id="unknown check",
        ),
        pytest.param(
            pipeline("gates: {source: [{min: 1}]}\n"),
            f"5:18: gates.source[0]: `check` is missing; allowed: {ALLOWED_CHECKS}",
            id="check without a name",
        ),
        pytest.param(
            pipeline("gates:\n  source:\n    - {check: files, max_age: 1h}\n"),
            "7:22: gates.source[0].max_age: unknown key; did you mean 'max'? allowed: check, severity, min, max",
            id="key of another check",
        ),
        pytest.param(
            pipeline("gates:\n  source:\n    - {check: files, min: -1}\n"),
            "7:27: gates.source[0].min: found -1; it must be at least 0",
            id="number in a check out of range",
        ),
        pytest.param(
            pipeline("gates:\n  delivery:\n    - {check: sum_close}\n"),
            "7:15: gates.delivery[0].check: unknown check 'sum_close'; did you mean 'sum_closes'? "
            "allowed: sum_closes, checksum, quarantine_rate, read_back",
            id="unknown delivery check",
        ),
        pytest.param(
            pipeline("gates:\n  delivery:\n    - {check: read_back, mode: offsets}\n    - {check: read_back, mode: full}\n"),
            "8:15: gates.delivery[1].check: there is a 'read_back' above already; it looks at everything, so keep one of them",
            id="delivery check given twice",
        ),
        pytest.param(
            pipeline("gates:\n  delivery:\n    - {check: quarantine_rate, max_rate: 0.1}\n"),
            "7:15: gates.delivery[0].check: it needs `quarantine`: without it no record goes there, and the first bad one fails the run",
            id="quarantine_rate without a quarantine",
        ),
        pytest.param(
            pipeline("gates:\n  delivery:\n    - {check: sum_closes, severity: quarantine}\n"),
            "7:37: gates.delivery[0].severity: found 'quarantine'; allowed: block, warn",
            id="delivery check about the whole with severity quarantine",
        ),
        pytest.param(
            pipeline("gates: {source: []}\n"),
            "5:9: gates.source: the list is empty; it needs an entry at least",
            id="gate without a check",
        ),
        pytest.param(
            pipeline("gates:\n  source:\n    - {check: rows, min: 3, max: 1}\n"),
            "7:7: gates.source[0]: `min` (3) is larger than `max` (1): no number is right",
            id="model validator in a list",
        ),
        pytest.param(
            pipeline("runner:\n  kind: standalone\n"),
            "5:1: runner: `kind: standalone` needs `master`",
            id="model validator of a section",
        ),
        pytest.param(
            pipeline("runner: {archive: /opt/tasks.tar.gz}\n"),
            "5:1: runner: `archive` and `kind: local` contradict each other; without executors elsewhere remove `archive`",
            id="an archive that nobody would unpack",
        ),
        pytest.param(
            pipeline("runner: {kind: yarn, archive: tasks.tar.gz}\n"),
            "5:31: runner.archive: found 'tasks.tar.gz'; write an absolute path or a URI that ends in .tar.gz, .tgz or .zip, and has no ',' and "
            "no '#'",
            id="an archive at a place that depends on who reads it",
        ),
        pytest.param(
            pipeline("schedule: '0 * * *'\n"),
            "5:11: schedule: found '0 * * *'; 4 fields; a cron expression has five: minute, hour, day of month, month, "
            "day of week; or it is one of @hourly, @daily, @weekly, @monthly, @quarterly, @yearly",
            id="shorthand of schedule",
        ),
        pytest.param(
            RIGHT.replace("s3a://logs/web/", "s3a://logs/{ds}/"),
            "2:9: source: found 's3a://logs/{ds}/'; unknown placeholder {ds}; allowed: {window_start:%Y-%m-%d}, {window_end:…}",
            id="shorthand of source",
        ),
        pytest.param(
            RIGHT.replace("s3a://logs/web/", "s3a://logs/{window_start:%Q}/"),
            "2:9: source: found 's3a://logs/{window_start:%Q}/'; %Q is not known here; there are %Y %m %d %j %H %M %S %-m %-d %-j %-H "
            "%-M %-S",
            id="a date pattern that nothing knows",
        ),
        pytest.param(
            RIGHT.replace("s3a://logs/web/", "s3a://logs/{window_start:%Y-%m-%d/%k}/"),
            "2:9: source: found 's3a://logs/{window_start:%Y-%m-%d/%k}/'; %k is not known here; write %-H; there are %Y %m %d %j %H %M "
            "%S %-m %-d %-j %-H %-M %-S",
            id="a date pattern whose step is not known",
        ),
        pytest.param(
            RIGHT.replace("logs.web", "logs web"),
            "3:8: topic: found 'logs web'; a topic name has letters, digits, '.', '_' and '-' only, and at most 249 characters",
            id="shorthand of routes",
        ),
        pytest.param(
            RIGHT.replace("topic: logs.web\n", ""),
            "1:1: topic: missing: every record needs a topic; write `topic: NAME`, or a table under `routes`",
            id="neither topic nor routes",
        ),
        pytest.param(
            pipeline("routes: [{topic: x}]\n"),
            "3:1: topic: `topic` and `routes` contradict each other; keep one of them",
            id="both topic and routes",
        ),
        pytest.param(RIGHT.replace("clusters: [local]\n", ""), "1:1: clusters: missing; it has no default", id="missing key"),
        pytest.param(
            RIGHT.replace("source: s3a://logs/web/", "source:\n  settle: 5m"),
            "2:1: source.path: missing; it has no default",
            id="missing key of a section",
        ),
        pytest.param(
            pipeline("delivery:\n  lease: 30\n"),
            "6:10: delivery.lease: found 30; a duration has a unit: 500ms, 30s, 10m, 2h, 1d or 1h30m",
            id="duration without a unit",
        ),
        pytest.param(
            pipeline("delivery:\n  lease: 2d\n"),
            "6:10: delivery.lease: found '2d'; it must be at most 1d",
            id="lease that one dead run could hold for days",
        ),
        pytest.param(
            pipeline("delivery:\n  chunk_size: 10B\n"),
            "6:15: delivery.chunk_size: found '10B'; it must be at least 1kB",
            id="size out of range",
        ),
        pytest.param(
            pipeline("delivery:\n  transaction_timeout: 1h\n"),
            "6:24: delivery.transaction_timeout: found '1h'; it must be at most 15m",
            id="duration out of range",
        ),
        pytest.param(
            pipeline("runner: {cores: '4'}\n"),
            "5:17: runner.cores: found '4'; expected a whole number, without quotes",
            id="number in quotes",
        ),
        pytest.param(
            pipeline("schedule: {cron: '@daily', start: 2026-11-01, catchup: yes}\n"),
            "5:56: schedule.catchup: found 'yes'; expected true or false, without quotes",
            id="yes is text",
        ),
        pytest.param(
            pipeline("schedule: {cron: '@daily', start: 20261101}\n"),
            "5:35: schedule.start: found 20261101; a date or time is written 2026-11-01, "
            "2026-11-01T06:00 or 2026-11-01T06:00+01:00",
            id="number for a date",
        ),
        pytest.param(
            pipeline("schedule: {cron: '@daily', timezone: Europe/Berln}\n"),
            "5:38: schedule.timezone: found 'Europe/Berln'; not a time zone; did you mean 'Europe/Berlin'?",
            id="time zone",
        ),
        pytest.param(
            pipeline("records:\n  headers:\n    year: 2026\n"),
            "7:11: records.headers.year: found 2026; expected text; put it into quotes",
            id="number for text",
        ),
        pytest.param(
            pipeline("records: [a]\n"),
            "5:1: records: found a list; expected a section of keys and values",
            id="list for a section",
        ),
        pytest.param(
            RIGHT.replace("[local]", "local"),
            "4:11: clusters: found 'local'; expected a list, such as [a, b]",
            id="text for a list",
        ),
        pytest.param(
            RIGHT.replace("pipeline: web", "pipeline: Web Logs"),
            "1:11: pipeline: found 'Web Logs'; a name has lower-case letters, digits, '_' and '-' only, begins with a letter "
            "and has 64 characters at most",
            id="name",
        ),
        pytest.param(pipeline("owner:\n"), "5:1: owner: has no value; write one, or remove the key", id="key without a value"),
        pytest.param(
            pipeline("owner: a\nowner: b\n"), "6:1: owner: the key is there twice; it is in line 5 too", id="duplicate key"
        ),
        pytest.param(
            pipeline("delivery:\n  lanes: 2\n  lease: 3s\n  lanes: 4\n"),
            "8:3: delivery.lanes: the key is there twice; it is in line 6 too",
            id="duplicate key in a section",
        ),
        pytest.param(
            pipeline("records: {columns: {a: '1', A: '2'}}\n"),
            "5:29: records.columns.A: differs from 'a' in letter case only, which SQL does not tell apart",
            id="columns that SQL cannot tell apart",
        ),
        pytest.param(
            pipeline("records: {columns: {value: '1'}}\n"),
            "5:21: records.columns.value: 'value' is taken: every record has it; choose another name",
            id="column that is there already",
        ),
        pytest.param(
            RIGHT.replace("logs.web", '"logs.{servce}"') + "records: {columns: {service: '1'}}\n",
            "3:8: topic: no column 'servce'; did you mean 'service'? allowed: value, file_path, file_name, service; "
            "`records.columns` defines them",
            id="column of a topic",
        ),
        pytest.param(
            pipeline("gates: {source: [{check: not_null, column: key}]}\n"),
            "5:44: gates.source[0].column: no column 'key'; allowed: value",
            id="column of a check",
        ),
        pytest.param(
            RIGHT.replace("topic: logs.web", "routes:\n  - {topic: a}\n  - {topic: b}"),
            "4:5: routes[0]: the route to 'a' has no `when`, so the routes after it can never match",
            id="route that takes everything",
        ),
        pytest.param(
            RIGHT.replace("topic: logs.web", "routes:\n  - {topic: a, when: x}"),
            "4:22: routes[0].when: the last route must have no `when`: it takes the records that match none before it",
            id="last route with a condition",
        ),
        pytest.param(
            pipeline("runner:\n  conf:\n    spark.speculation: 'true'\n"),
            "7:5: runner.conf.spark.speculation: pinned by shipper: two attempts of one task would fence each other",
            id="pinned Spark setting",
        ),
        pytest.param(RIGHT.replace("[local]", "[local, local]"), "4:19: clusters[1]: 'local' is named twice", id="cluster twice"),
        pytest.param(
            RIGHT.replace("[local]", "[locl]"),
            "4:12: clusters[0]: no cluster 'locl'; did you mean 'local'? there are: local",
            id="missing cluster",
        ),
        pytest.param(
            RIGHT.replace("pipeline: web", "pipeline: access"),
            "1:11: pipeline: found 'access', but the file is web.yaml; the two must be the same: "
            "rename the file or change the name",
            id="name that is not the file's",
        ),
    ],
)
def test_fault_shows_the_users_own_path_line_and_column(text: str, expected: str) -> None:
    assert faults_of(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: the file is empty"),
        ("# nothing yet\n", "1:1: the file is empty"),
        ("- a\n", "1:1: the file is a list; it must be keys and values, such as `pipeline: web`"),
        (RIGHT + "delivery:\n  lanes: 2\n\tlease: 3s\n", "7:1: a tab; YAML indents with spaces"),
        (
            RIGHT + "owner: [a\nrunner: x\n",
            "6:7: a list or section in brackets, opened in line 5 is not closed, or lacks a comma",
        ),
        (RIGHT + "owner: 'a\n", "5:8: a quote that is never closed"),
        (
            RIGHT + "owner: a: b\n",
            "5:9: a `:` that cannot be here: put text that holds `: ` into quotes, or check the indentation",
        ),
        (RIGHT + "schedule: @hourly\n", "5:11: text cannot begin with '@'; put it into quotes"),
        (
            RIGHT + "owner: *team\n",
            "5:8: `*` begins an alias and there is no such anchor; put text that begins with * into quotes",
        ),
        (RIGHT + "owner: !team a\n", "5:8: owner: `!` begins a tag; put text that begins with ! into quotes"),
        (RIGHT + "---\na: b\n", "5:1: a second document (`---`); one file holds one"),
        (RIGHT + "records: {headers: {404: a}}\n", "5:21: records.headers: a key must be text; put it into quotes"),
        (RIGHT + "owner: a\x07b\n", "5:9: a control character, which YAML does not allow"),
        (RIGHT.encode() + b"owner: caf\xe9\n", "5:11: not UTF-8: byte 0xe9; save the file as UTF-8"),
        ("a: &a [*a]\n", "1:1: nested too deeply, or an alias that contains itself"),
        ("[" * 5000, "1:33: nested more than 32 levels deep"),
    ],
)
def test_text_that_is_not_yaml_is_shown_where_it_breaks(text: str | bytes, expected: str) -> None:
    assert faults_of(text) == [expected]


def test_a_byte_order_mark_and_windows_line_ends_are_no_fault() -> None:
    assert faults_of(b"\xef\xbb\xbf" + RIGHT.replace("\n", "\r\n").encode()) == []


def test_file_that_cannot_be_read_is_a_fault() -> None:
    Path("config/pipelines/web.yaml").mkdir()
    assert [str(fault) for fault in load_all(Path("config")).faults] == ["config/pipelines/web.yaml: not a regular file"]


def test_all_faults_of_all_files_come_at_once_in_the_order_of_files_and_lines() -> None:
    Path("config/clusters/far.yaml").write_text("cluster: far\nbootstrp: x\n")
    Path("config/pipelines/b.yaml").write_text("pipeline: b\nsource: x\ntopic: 'a b'\nclusters: [far, lcal]\nowner: 1\n")
    Path("config/pipelines/a.yaml").write_text("- a\n")
    places = [(fault.file, fault.line, fault.column, fault.field) for fault in load_all(Path("config")).faults]
    assert places == [
        ("config/clusters/far.yaml", 1, 1, "bootstrap"),
        ("config/clusters/far.yaml", 2, 1, "bootstrp"),
        ("config/pipelines/a.yaml", 1, 1, ""),
        ("config/pipelines/b.yaml", 3, 8, "topic"),
        ("config/pipelines/b.yaml", 4, 12, "clusters[0]"),
        ("config/pipelines/b.yaml", 4, 17, "clusters[1]"),
        ("config/pipelines/b.yaml", 5, 8, "owner"),
    ]


def test_pipeline_of_a_broken_cluster_says_what_is_wrong_with_the_cluster() -> None:
    Path("config/clusters/far.yaml").write_text("cluster: far\nbootstrap:\n")
    assert faults_of(RIGHT.replace("local", "far")) == [
        "4:12: clusters[0]: cluster 'far' is broken: "
        "config/clusters/far.yaml:2:1: bootstrap: has no value; write one, or remove the key"
    ]


# --- The environment


def test_variable_that_is_not_set_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHIPPER_NOWHERE", raising=False)
    where = "the environment variable SHIPPER_NOWHERE is not set; set it, or write a default: ${SHIPPER_NOWHERE:-…}"
    assert faults_of(RIGHT.replace("s3a:/", "${SHIPPER_NOWHERE}")) == [f"2:9: source: {where}"]
    assert faults_of(pipeline("runs_uri: x/${SHIPPER_NOWHERE}\n")) == [f"5:11: runs_uri: {where}"]
    assert faults_of(RIGHT) == []
    secret = LOCAL + "properties:\n  sasl.password: ${SHIPPER_NOWHERE}\n"
    assert faults_of(secret, "local", "clusters") == [f"4:18: properties.sasl.password: {where}"]


def test_reference_that_is_not_closed_is_a_fault() -> None:
    wrong = "`${` begins a reference to the environment; write ${NAME} or ${NAME:-default}"
    assert faults_of(LOCAL.replace("127.0.0.1:9092", "${HOST"), "local", "clusters") == [f"2:12: bootstrap: {wrong}"]


@pytest.mark.parametrize(
    "properties",
    [
        "sasl.password: {hunter2: 1}",
        "sasl.password: {hunter2}",
        "sasl.password: [hunter2]",
        "sasl.password: *hunter2",
        "sasl.password: !hunter2!x y",
        "sasl.password: !hunter2 y",
        "sasl.password: &hunter2",
        "sasl.password: @hunter2",
        "sasl.password: %hunter2",
        "sasl.password: 'hunter2",
        'sasl.password: "hunter2\\d"',
        "sasl.password: a: hunter2",
        "sasl.password: {hunter2: 1, hunter2: 2}",
        "sasl.password: x\n  sasl.password: hunter2",
        "acks: hunter2",
        "sasl.password: ${hunter2 }",
    ],
)
def test_no_fault_prints_a_value_of_properties(properties: str) -> None:
    found = faults_of(LOCAL + f"properties:\n  {properties}\n", "local", "clusters")
    assert len(found) == 1
    assert "hunter2" not in found[0]
    assert found[0].startswith(("4:", "5:"))


def test_value_from_the_environment_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    text = LOCAL + "ledger: {topic: 'a b ${SECRET}', replication_factor: '${SECRET}', create: '${SECRET}'}\n"
    found = faults_of(text, "local", "clusters")
    assert [line.split("; ")[0] for line in found] == [
        "3:17: ledger.topic: found 'a b ${SECRET}'",
        "3:54: ledger.replication_factor: found '${SECRET}'",
        "3:75: ledger.create: found '${SECRET}'",
    ]
    assert "hunter2" not in "".join(found)


def test_kafka_property_that_shipper_owns_is_refused() -> None:
    (fault,) = faults_of(LOCAL + "properties: {acks: 1}\n", "local", "clusters")
    assert fault.startswith("3:14: properties.acks: no property that a cluster file may set")


# --- Folders and names


def test_other_ending_is_said_and_not_ignored() -> None:
    Path("config/pipelines/web.yml").write_text(RIGHT)
    loaded = load_all(Path("config"))
    said = "config/pipelines/web.yml: ignored because of its ending; rename it to web.yaml"
    assert [str(fault) for fault in loaded.faults] == [said]
    assert list(loaded.broken) == ["web"]
    with pytest.raises(ConfigError) as error:
        load_pipeline(Path("config"), "web")
    assert error.value.message == said


def test_other_ending_beside_the_right_file_breaks_nothing() -> None:
    Path("config/pipelines/web.yaml").write_text(RIGHT)
    Path("config/pipelines/web.yml").write_text("nonsense")
    loaded = load_all(Path("config"))
    assert list(loaded.pipelines) == ["web"]
    assert loaded.broken == {}
    assert [fault.file for fault in loaded.faults] == ["config/pipelines/web.yml"]


def test_names_that_differ_in_letter_case_only_are_refused() -> None:
    Path("config/pipelines/web.yaml").write_text(RIGHT)
    Path("config/pipelines/Web.yaml").write_text(RIGHT)
    loaded = load_all(Path("config"))
    assert "config/pipelines/web.yaml: differs from Web.yaml in letter case only; rename one of them" in map(str, loaded.faults)
    assert "Web" in loaded.broken


def test_unknown_names_are_answered_with_those_that_there_are() -> None:
    Path("config/pipelines/web.yaml").write_text(RIGHT)
    with pytest.raises(ConfigError) as pipeline_error:
        load_pipeline(Path("config"), "wab")
    assert pipeline_error.value.message == "no pipeline 'wab'; did you mean 'web'? there are: web"
    with pytest.raises(ConfigError) as cluster_error:
        load_cluster(Path("config"), "../pipelines/web")
    assert cluster_error.value.message == "no cluster '../pipelines/web'; there are: local"
    assert cluster_error.value.exit_code == 2


def test_folder_that_is_not_there_is_said() -> None:
    said = f"nowhere: no such folder (seen from {Path.cwd()}); say where the configuration is with --config DIR"
    assert [str(fault) for fault in load_all(Path("nowhere")).faults] == [said]
    with pytest.raises(ConfigError, match="no such folder"):
        load_pipeline(Path("nowhere"), "web")


def test_no_pipeline_at_all_is_a_fault() -> None:
    expected = ["config/pipelines: no pipeline here; a pipeline is a file NAME.yaml in this folder"]
    assert [str(fault) for fault in load_all(Path("config")).faults] == expected


def test_load_pipeline_raises_all_faults_of_the_file_and_no_others() -> None:
    Path("config/pipelines/other.yaml").write_text("nonsense")
    Path("config/pipelines/web.yaml").write_text(RIGHT.replace("local", "nope") + "owner: 1\n")
    with pytest.raises(ConfigError) as error:
        load_pipeline(Path("config"), "web")
    assert error.value.message.splitlines() == [
        "config/pipelines/web.yaml:4:12: clusters[0]: no cluster 'nope'; there are: local",
        "config/pipelines/web.yaml:5:8: owner: found 1; expected text; put it into quotes",
    ]


def test_absolute_folder_is_shown_relative_to_where_the_user_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("config/pipelines/web.yaml").write_text("nonsense")
    assert load_all(tmp_path / "config").faults[0].file == "config/pipelines/web.yaml"
    monkeypatch.chdir("/")
    elsewhere = tmp_path.relative_to("/") / "config/pipelines/web.yaml"
    assert load_all(tmp_path / "config").faults[0].file == elsewhere.as_posix()
    monkeypatch.chdir(tmp_path / "config" / "clusters")
    assert load_all(tmp_path / "config").faults[0].file == "config/pipelines/web.yaml"


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("routes[0].when", "5:12: routes[0].when"),
        ("records.headers.x.y", "8:10: records.headers.x.y"),
        ("records.timestamp", "6:1: records.timestamp"),
        ("source.path", "2:9: source"),
    ],
)
def test_what_spark_finds_wrong_gets_its_place(field: str, place: str) -> None:
    text = "pipeline: web\nsource: x\nclusters: [local]\nroutes:\n  - {when: a, topic: b}\nrecords:\n  headers:\n    x.y: z\n"
    Path("config/pipelines/web.yaml").write_text(text)
    assert str(locate(Path("config"), "web", field, "no such function")) == f"config/pipelines/web.yaml:{place}: no such function"


@pytest.mark.parametrize(
    ("cron", "fires"),
    [
        ("0 0 30 2 *", False),
        ("0 0 31 2,4,jun *", False),
        ("0 0 31 9-11 *", True),
        ("0 0 30,29 feb *", True),
        ("0 0 30 2 mon", True),
        ("0 0 31 */2 *", True),
        ("0 0 L 2 *", True),
        ("0 0 30 1/2 *", True),
        ("0 0 28-31 2 *", True),
    ],
)
def test_a_cron_that_never_fires_is_refused(cron: str, fires: bool) -> None:
    found = faults_of(pipeline(f"schedule: '{cron}'\n"))
    assert (found == []) is fires, found
    assert fires or "never comes" in found[0]


@pytest.mark.parametrize(
    ("bootstrap", "why"),
    [
        ("kafka-1", "'kafka-1' has no port; write host:port"),
        ("kafka-1:9092,kafka-2", "'kafka-2' has no port"),
        ("kafka-1:99999", "a port is between 1 and 65535"),
        ("http://kafka-1:9092", "is a URL; write host:port"),
        ("SASL_SSL://kafka-1:9092", "is a URL; write host:port"),
        ("kafka-1:9092,", "an empty entry"),
        ("kafka 1:9092", "is no host:port"),
    ],
)
def test_a_bootstrap_that_is_none_is_refused(bootstrap: str, why: str) -> None:
    found = faults_of(f"cluster: far\nbootstrap: '{bootstrap}'\n", "far", "clusters")
    assert len(found) == 1
    assert found[0].startswith("2:12: bootstrap: ")
    assert why in found[0]


def test_bootstrap_may_be_a_list(config: Path) -> None:
    listed = LOCAL.replace("127.0.0.1:9092", "['127.0.0.1:9092', '127.0.0.1:9093']")
    assert faults_of(listed, "local", "clusters") == []
    assert load_cluster(config, "local").bootstrap == "127.0.0.1:9092,127.0.0.1:9093"
    assert faults_of(listed.replace(":9093", ""), "local", "clusters") != []


@pytest.mark.parametrize("bootstrap", ["[::1]:9092", "kafka-1.example:9092, kafka-2:1", "10.0.0.1:9092"])
def test_a_bootstrap_of_any_kind_of_host_is_taken(bootstrap: str) -> None:
    assert faults_of(f"cluster: far\nbootstrap: '{bootstrap}'\n", "far", "clusters") == []


def test_a_former_name_is_of_no_other_pipeline(config: Path) -> None:
    """Two pipelines on one ledger would each take the other's windows for shipped, or send them again."""
    old = config / "pipelines" / "old.yaml"
    assert faults_of(pipeline("formerly: old\n")) == []
    old.write_text(RIGHT.replace("pipeline: web", "pipeline: old"))
    (fault,) = faults_of(pipeline("formerly: old\n"))
    assert fault.startswith("5:11: formerly: pipeline 'old' exists")
    (fault,) = faults_of(pipeline("formerly: [older, old]\n"))
    assert fault.startswith("5:19: formerly[1]: pipeline 'old' exists")
    with pytest.raises(ConfigError, match="pipeline 'old' exists"):
        load_pipeline(config, "web")
    # A circle.
    old.write_text(RIGHT.replace("pipeline: web", "pipeline: old") + "formerly: web\n")
    assert len(faults_of(pipeline("formerly: old\n"))) == 1
    assert len(load_all(config).faults) == 2
    # Two that were one.
    old.write_text(RIGHT.replace("pipeline: web", "pipeline: old") + "formerly: [oldest]\n")
    (fault,) = faults_of(pipeline("formerly: oldest\n"))
    assert "pipeline 'old' was formerly 'oldest' too" in fault
    with pytest.raises(ConfigError, match="was formerly 'oldest' too"):
        load_pipeline(config, "web")
    old.unlink()
    for wrong in ("web", "Old", "[old, old]", "../old"):
        assert len(faults_of(pipeline(f"formerly: {wrong}\n"))) == 1, wrong


def test_a_renamed_pipeline_is_kept_under_the_first_of_its_names(config: Path) -> None:
    for text, key in (("", "web"), ("formerly: old\n", "old"), ("formerly: [old, oldest]\n", "oldest")):
        assert faults_of(pipeline(text)) == []
        assert load_pipeline(config, "web").key == key

"""`shipper test`, and the first file that `preview --save-test` writes for it: without a broker."""

import gzip
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from shipper.config.cases import load_cases
from tests import warm

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTED = sorted(file.parents[2].name for file in EXAMPLES.glob("*/config/tests/*.yaml"))
LINES = [
    b"06:00:00 10.0.0.1 GET /a 200",
    b"06:00:01 10.0.0.2 GET /healthz 200",
    b"06:00:02 10.0.0.3 GET /it's:b#c 500",
    b"nonsense of joe@example.com",
]
PIPELINE = {
    "pipeline": "web",
    "source": {"path": "logs/{window_start:%Y-%m-%d}/", "settle": "0s"},
    "routes": [{"when": "code = '500'", "topic": "errors"}, {"topic": "logs"}],
    "clusters": {"near": {}, "far": {"routes": [{"topic": "archive"}]}},
    "records": {
        "parse": {"regex": r"^(?<at>\S+) (?<client>\S+) \S+ (?<url>\S+) (?<code>\d{3})"},
        "columns": {"time": "window_start + make_interval(0, 0, 0, 0, cast(left(at, 2) AS INT))"},
        "drop": {"health": "url = '/healthz'"},
        "redact": ["email", {"rule": "ipv4", "hash": {"key": "${HASH_KEY}"}}],
        "key": "client",
        "headers": {"file": "file_name", "path": "file_path"},
        "timestamp": "time",
    },
    "quarantine": {"topic": "odd"},
}


@pytest.fixture
def config(tmp_path):
    folder = tmp_path / "config"
    for name in ("pipelines", "clusters", "tests"):
        (folder / name).mkdir(parents=True)
    for cluster in ("near", "far"):
        (folder / "clusters" / f"{cluster}.yaml").write_text(
            f"cluster: {cluster}\nbootstrap: 127.0.0.1:1\n"
        )
    write(folder, PIPELINE)
    return folder


def write(config, pipeline):
    (config / "pipelines" / f"{pipeline['pipeline']}.yaml").write_text(json.dumps(pipeline))


def changed(section, **more):
    return {**PIPELINE, section: {**PIPELINE[section], **more}}


def shipper(config, *arguments, code=0, **environment):
    done = warm.run(["shipper", *arguments, "--config", str(config)], {**os.environ, **environment})
    assert done.returncode == code, done.stderr[-4000:]
    return done


@pytest.mark.parametrize("example", TESTED)
@pytest.mark.long
def test_the_tests_of_the_examples_hold(example):
    report = json.loads(shipper(EXAMPLES / example / "config", "test", "--json").stdout)
    assert report["passed"] == len(report["cases"]) > 0


def test_the_example_in_the_docs_holds(tmp_path):
    folder = EXAMPLES.parent / "docs" / "how-to"
    pages = [folder / "describe-a-stream.md", folder / "test-a-pipeline.md"]
    guide = "".join(page.read_text(encoding="utf-8") for page in pages)
    for cluster in ("frankfurt", "singapore"):
        file = tmp_path / "config" / "clusters" / f"{cluster}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"cluster: {cluster}\nbootstrap: 127.0.0.1:1\n")
    blocks = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    pipeline = next(block for block in blocks if "deliver_within: 1h" in block)
    cases = next(block for block in blocks if "\ncases:" in block)
    for folder, text in (("pipelines", pipeline), ("tests", cases)):
        (tmp_path / "config" / folder).mkdir()
        (tmp_path / "config" / folder / "web_access.yaml").write_text(text)
    report = json.loads(shipper(tmp_path / "config", "test", "--json").stdout)
    assert (report["passed"], report["failed"]) == (1, 0)


@pytest.mark.long
def test_what_is_saved_holds_and_a_change_of_the_pipeline_is_told(config, tmp_path):
    log = tmp_path / "logs" / "2026-11-01" / "odd name.log.gz"
    log.parent.mkdir(parents=True)
    log.write_bytes(gzip.compress(b"\n".join([*LINES, b"not UTF-8: \xff"])))
    key = {"HASH_KEY": "of production, and secret"}
    window = ["--window", "2026-11-01T00:00/2026-11-02T00:00"]
    previewed = shipper(config, "preview", "web", *window, "--save-test", "--json", **key)
    assert "odd name.log.gz:5 " in previewed.stderr, "what no text holds is left out by name"
    (case,) = load_cases(config, "web").cases.values()
    assert case.lines == b"\n".join([*LINES, b""]).decode()
    first, dropped, error, odd = case.expect
    assert (first.topic, error.topic) == ("logs", "errors")
    assert (dropped.dropped, odd.quarantined) == ("health", "unparseable")
    assert odd.value == "nonsense of [email]"
    # What depends on the path is what the preview of the real file shows, and no key of
    # production's is in the file.
    shown = json.loads(previewed.stdout)["lines"][0]
    assert first.headers == shown["headers"]
    assert first.headers["path"].endswith("/2026-11-01/odd%20name.log.gz")
    assert first.timestamp.timestamp() * 1000 == shown["timestamp_ms"]
    assert first.key != shown["key"]

    # On a machine without the secret and without the log.
    log.unlink()
    passed = json.loads(shipper(config, "test", "--json").stdout)
    assert (passed["passed"], passed["failed"]) == (1, 0)

    text = (config / "tests" / "web.yaml").read_text()
    shipper(config, "preview", "web", *window, "--save-test", code=2, **key)
    assert (config / "tests" / "web.yaml").read_text() == text

    write(config, changed("records", redact=[], drop={"health": "false"}))
    failed = json.loads(shipper(config, "test", "web", "--json", code=1).stdout)
    differs = [(one["record"], one["field"]) for one in failed["cases"][0]["differences"]]
    assert differs == [
        (1, "key"),
        (1, "value"),
        (2, "outcome"),
        (3, "key"),
        (3, "value"),
        (4, "value"),
    ]
    assert failed["cases"][0]["differences"][2]["expected"] == "dropped: health"
    said = shipper(config, "test", code=1).stdout
    assert "nonsense of joe@example.com" in said


@pytest.mark.long
def test_of_rows_the_file_is_kept_and_of_many_lines_a_file_beside(tmp_path):
    folder = shutil.copytree(EXAMPLES / "orders_csv", tmp_path / "orders")
    shutil.rmtree(folder / "config" / "tests")
    (log,) = (folder / "logs").rglob("*.csv")
    named = ["--file", str(log), "-n", "2", "--save-test"]
    shipper(folder / "config", "preview", "orders_csv", *named)
    tests = folder / "config" / "tests"
    assert (tests / "orders_csv" / "orders.csv").read_bytes() == log.read_bytes()
    many = tmp_path / "many.log"
    many.write_text("".join(f"{number} {'x' * 300}\n" for number in range(60)))
    plain = {"pipeline": "plain", "source": "logs", "topic": "logs", "clusters": ["local"]}
    write(folder / "config", plain)
    shipper(folder / "config", "preview", "plain", "--file", str(many), "-n", "60", "--save-test")
    assert (tests / "plain" / "many.log.txt").read_bytes() == many.read_bytes()
    packed = {"path": "logs", "format": "csv", "codec": "gzip"}
    wide = {**plain, "pipeline": "wide", "source": packed}
    wide["source"]["encoding"] = "UTF-16LE"
    write(folder / "config", wide)
    case = {"lines": "a,b\nü,€\n", "expect": [{"value": '{"a":"ü","b":"€"}'}]}
    (tests / "wide.yaml").write_text(json.dumps({"cases": {"wide": case}}))
    report = json.loads(shipper(folder / "config", "test", "--json").stdout)
    assert [(case["passed"], case["records"]) for case in report["cases"]] == [
        (True, 40),
        (True, 60),
        (True, 1),
    ]
    # What is saved of another encoding is in that encoding.
    text = {**plain, "pipeline": "text", "source": {"path": "logs", "encoding": "UTF-16LE"}}
    write(folder / "config", text)
    other = tmp_path / "other.log"
    other.write_bytes("grüße\n€\n".encode("utf-16-le"))
    shipper(folder / "config", "preview", "text", "--file", str(other), "--save-test")
    (saved,) = load_cases(folder / "config", "text").cases.values()
    assert [one.value for one in saved.expect] == ["grüße", "€"]
    shipper(folder / "config", "test", "text")
    (tests / "plain.yaml").unlink()
    shipper(
        folder / "config",
        "preview",
        "plain",
        "--file",
        str(many),
        "-n",
        "60",
        "--save-test",
        code=2,
    )
    assert not (tests / "plain.yaml").exists(), "the file beside it may be somebody's work"


@pytest.mark.long
def test_cases_of_one_file_another_cluster_and_sql_that_fails_by_itself(config):
    (config / "tests" / "a.log.gz").write_bytes(gzip.compress(LINES[2] + b"\n"))
    same = {"file": "a.log.gz", "path": "/logs/2026-11-01/a.log"}
    write(config, changed("records", max_line="1kB"))
    cases = {
        "too long": {
            "lines": f"{'x' * 1_001}\n06:00:00 10.0.0.1 GET /a 200\n",
            "expect": [{"quarantined": "too_large"}, {"topic": "logs"}],
        },
        "near": {**same, "expect": [{"topic": "errors"}]},
        "again": {**same, "expect": [{"timestamp": "2026-11-01T06:00Z"}]},
        "far": {**same, "cluster": "far", "expect": [{"topic": "archive"}]},
        "packed by name alone": {
            "lines": "06:00:00 10.0.0.1 GET /a 200\n",
            "path": "/logs/2026-11-01/a.log.gz",
            "expect": [
                {"headers": {"file": "a.log.gz", "path": "file:///logs/2026-11-01/a.log.gz"}}
            ],
        },
    }
    (config / "tests" / "web.yaml").write_text(json.dumps({"cases": cases}))
    assert json.loads(shipper(config, "test", "--json").stdout)["passed"] == 5

    # A run would fail of the one line; the cases without it still say what they say.
    fails = "if(code = '500', raise_error('x'), client)"
    write(config, changed("records", key=fails))
    report = json.loads(shipper(config, "test", "--json", code=1).stdout)
    assert {case["case"]: bool(case["error"]) for case in report["cases"]} == {
        "too long": False,
        "near": True,
        "again": True,
        "far": True,
        "packed by name alone": False,
    }

    write(config, changed("records", key="no_such_column"))
    wrong = shipper(config, "test", code=2)
    assert "pipelines/web.yaml:1:" in wrong.stderr
    assert "records.key" in wrong.stderr

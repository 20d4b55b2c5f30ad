"""Transform digests of the examples and of a pipeline for each kind of record: pinned.

A digest that changes makes a file that was begun before an upgrade unfinishable after it."""

from pathlib import Path

import pytest

from shipper.config.load import load_pipeline, pipeline_names
from tests.samples.config import pipeline_of

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "config/web_access": "34abcdcc8295",
    "examples/app_events/config/app_events": "920971a82f07",
    "examples/audit_parquet/config/audit_parquet": "9618ddfb22cc",
    "examples/java_stacks/config/java_stacks": "afdcf8d1ed97",
    "examples/kubernetes/config/web_access": "1b755588faf2",
    "examples/nginx_access/config/nginx_access": "ef5440480555",
    "examples/orders_csv/config/orders_csv": "e42145e5d4fd",
}
_PARSE = {"regex": r"^(?<client>\S+) (?<status>\d{3})"}
_AVRO = {
    "type": "record",
    "name": "Line",
    "fields": [{"name": "client", "type": ["null", "string"]}],
}
SAMPLES = {
    "plain": ("6802ebed9ed3", {}),
    "jsonl": ("95ee63796352", {"source": {"path": "logs", "format": "jsonl"}}),
    "csv": (
        "45b520dba4e5",
        {"source": {"path": "logs", "format": "csv", "csv": {"delimiter": ";"}}},
    ),
    "parquet": ("4e5246f4381f", {"source": {"path": "logs", "format": "parquet"}}),
    "avro": ("97f8c8a9e1e8", {"source": {"path": "logs", "format": "avro"}}),
    "orc": ("393f0864f235", {"source": {"path": "logs", "format": "orc"}}),
    "whole file": ("d2fa54b053a6", {"source": {"path": "logs", "format": "whole_file"}}),
    "codec": ("a74fefb19937", {"source": {"path": "logs", "codec": "lz4"}}),
    "stacks": ("7c479ccce9c7", {"records": {"starts_with": r"^\d{4}-"}}),
    "parsed": (
        "d94c8567b3ca",
        {"records": {"parse": _PARSE, "key": "client", "columns": {"s": "status"}}},
    ),
    "dropped": ("ed35d2a688bc", {"records": {"drop": {"empty": "value = ''"}}}),
    "headers": ("b2408e066103", {"records": {"parse": _PARSE, "headers": {"h": "client"}}}),
    "long lines": ("8e1872dd60a1", {"records": {"max_line": "2MiB"}}),
    "redacted": (
        "5f0ef914153b",
        {"records": {"redact": ["email", {"rule": "card", "with": "****"}]}},
    ),
    "avro values": ("a62f48237713", {"records": {"parse": _PARSE, "avro": {"schema": _AVRO}}}),
    "routed": (
        "046ba440fb10",
        {"routes": [{"topic": "a", "when": "value LIKE 'a%'"}, {"topic": "b"}]},
    ),
    "topics of lines": (
        "6955b9cfe206",
        {
            "records": {"parse": _PARSE},
            "routes": [{"topic": "l.{client}", "topics": ["l.a", "l.b"]}],
        },
    ),
}


@pytest.mark.parametrize("place", EXAMPLES)
def test_the_digest_of_an_example_is_what_it_was(place):
    folder, name = place.rsplit("/", 1)
    assert load_pipeline(ROOT / folder, name).transform_digest() == EXAMPLES[place]


def test_each_example_is_pinned():
    folders = [ROOT / "config", *sorted(ROOT.glob("examples/*/config"))]
    found = {f"{f.relative_to(ROOT)}/{name}" for f in folders for name in pipeline_names(f) or ()}
    assert found == EXAMPLES.keys()


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_digest_of_a_kind_of_record_is_what_it_was(kind):
    digest, settings = SAMPLES[kind]
    assert pipeline_of(**settings).transform_digest() == digest

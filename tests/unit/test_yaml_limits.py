"""One file cannot take all pipelines down: what would cost much time or memory is refused, and the
others stay."""

import os
import re
from pathlib import Path

import pytest

from shipper.config.load import load_all
from shipper.config.yaml_file import DEEPEST, LARGEST_BYTES, LONGEST_TEXT, MOST_VALUES, parse_yaml

RIGHT = "pipeline: {}\nsource: s3a://logs/web/\ntopic: logs.web\nclusters: [local]\n"


def bomb(levels):
    """Each level has eight of the one before."""
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 8)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


@pytest.fixture
def config(config, monkeypatch):
    monkeypatch.chdir(config.parent)
    (config / "pipelines" / "web.yaml").write_text(RIGHT.format("web"))
    return Path("config")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            bomb(6),
            rf"^config/pipelines/bad\.yaml:5:\d+: more than {MOST_VALUES:,} values up to here",
        ),
        (bomb(12), r"bad\.yaml:5:\d+: more than"),
        ("a: [" + "x," * MOST_VALUES + "]", r"bad\.yaml:1:\d+: more than"),
        ("a: " + "[" * 100_000, rf"bad\.yaml:1:35: nested more than {DEEPEST} levels deep"),
        ("a: &a [*a]", r"bad\.yaml:1:1: nested too deeply, or an alias that contains itself"),
        (
            f"a: b\nc: {'x' * (LONGEST_TEXT + 1)}",
            rf"bad\.yaml:2:4: {LONGEST_TEXT + 1:,} characters; a value has {LONGEST_TEXT:,} at "
            r"most",
        ),
        (
            "a: " + "x" * LARGEST_BYTES,
            rf"bad\.yaml: {LARGEST_BYTES + 3:,} bytes; a configuration file has {LARGEST_BYTES:,} "
            r"at most",
        ),
    ],
    ids=["bomb", "larger bomb", "long list", "deep", "loop", "long text", "large file"],
)
def test_a_hostile_file_is_refused_and_the_others_stay(config, text, why):
    (config / "pipelines" / "bad.yaml").write_text(text)
    loaded = load_all(config)
    assert list(loaded.pipelines) == ["web"]
    (fault,) = loaded.broken["bad"]
    assert re.search(why, str(fault)), str(fault)


def test_what_is_no_file_is_not_waited_for(config):
    os.mkfifo(config / "pipelines" / "pipe.yaml")
    (config / "pipelines" / "zero.yaml").symlink_to("/dev/zero")
    loaded = load_all(config)
    assert {name: fault.message for name, (fault, *_) in loaded.broken.items()} == dict.fromkeys(
        ("pipe", "zero"), "not a regular file"
    )
    assert list(loaded.pipelines) == ["web"]


def test_no_more_values_are_made_than_are_allowed():
    """The bomb's 2.4 million would take gigabytes."""
    assert len(parse_yaml(bomb(7)).written) <= MOST_VALUES + 1


def test_a_source_of_braces_alone_is_looked_at_once(config):
    """It took hours: each brace began a search to the end of the text."""
    (config / "pipelines" / "web.yaml").write_text(
        RIGHT.format("web").replace("s3a://logs/web/", f"'/{'{' * (LONGEST_TEXT - 1)}'")
    )
    load_all(config)


def test_aliases_and_long_files_of_people_are_taken(config):
    routes = "\n".join(f"  - {{when: \"value = '{n}'\", topic: logs.web}}" for n in range(1000))
    text = RIGHT.format("long").replace(
        "topic: logs.web\n", f"routes:\n{routes}\n  - {{topic: logs.web}}\n"
    )
    text += "records:\n  columns: &c {a: value}\n  headers: *c\n"
    (config / "pipelines" / "long.yaml").write_text(text)
    assert load_all(config).faults == ()

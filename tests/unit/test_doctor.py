"""How `shipper doctor` goes about its checks, and what it prints. What it finds on real servers is
in tests/integration/test_doctor.py."""

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from shipper.cli import doctor as command
from shipper.config.load import load_pipeline
from shipper.driver.checks import machine
from shipper.driver.checks.catalogue import Check, CheckTarget, examine, skipped
from shipper.errors import ClusterRefuses
from shipper.finding import fail, ok, warn
from tests.samples.config import pipeline_of, write_config

HERE = CheckTarget(Path("config"), None, 5)


def check(name, *found, after=""):
    return Check(name, lambda _: iter(found), "do it", after=after)


def test_what_comes_behind_a_check_that_failed_is_skipped_and_other_chains_are_not():
    broken = [
        check("a", fail("no", subject="half of a")),
        check("b", ok(""), after="a"),
        check("c", ok(""), after="b"),
    ]
    well = [
        check("a", warn("hm", "look")),
        check("b", skipped("nobody asks")),
        check("c", ok("yes"), after="b"),
    ]
    found = examine([replace(HERE, checks=broken), replace(HERE, cluster_name="far", checks=well)])
    shown = [(one.cluster, one.subject, one.severity, one.code, one.remedy) for one in found]
    assert shown == [
        ("", "half of a", "fail", "", "do it"), ("", "b", "ok", "skipped", ""),
        ("", "c", "ok", "skipped", ""), ("far", "a", "warn", "", "look"),
        ("far", "b", "ok", "skipped", ""), ("far", "c", "ok", "", ""),
    ]  # fmt: skip
    assert {each.text for each in found[1:3]} == {"not checked, because half of a failed"}


def test_whatever_a_check_raises_is_a_finding_with_a_remedy_and_no_secret():
    def refuses(_):
        yield ok("done", subject="half")
        raise ClusterRefuses("wrong password")

    def surprises(_):
        raise RuntimeError("secret-value")

    def lacks(_):
        raise PermissionError(13, "Permission denied", "/there")

    found = examine(
        [
            replace(
                HERE,
                checks=[
                    Check(each.__name__, each, "mend it") for each in (refuses, surprises, lacks)
                ],
            )
        ]
    )
    assert [each.severity for each in found] == ["ok", "fail", "fail", "fail"]
    assert [each.remedy for each in found[1:]] == ["mend it"] * 3
    assert found[1].text == "wrong password [SHIP-402]"
    assert "secret-value" not in repr(found)
    assert "/there" in found[3].text


def test_a_check_that_never_answers_takes_its_limit_and_no_longer_and_holds_up_nobody():
    never = threading.Event()

    def hangs(_):
        never.wait()
        yield ok("")

    began = time.monotonic()
    found = examine(
        [
            replace(
                HERE,
                checks=[
                    Check("hangs", hangs, "look"),
                    check("next", ok(""), after="hangs"),
                    check("other", ok("")),
                ],
            )
        ],
        0.3,
    )
    assert time.monotonic() - began < 60
    assert [(each.subject, each.severity) for each in found] == [
        ("hangs", "fail"),
        ("next", "ok"),
        ("other", "ok"),
    ]
    assert found[0].text == "no answer within 0.3 s"
    never.set()


def test_a_configuration_that_is_broken_or_absent_is_a_finding(tmp_path):
    found = command.findings(tmp_path / "nowhere", "web", 5)
    assert (found[0].subject, found[0].severity) == ("configuration", "fail")
    assert {each.subject for each in found} >= {"Java", "Python", "disk"}


def test_no_java_and_one_that_is_too_old_are_told_with_what_to_install(tmp_path, monkeypatch):
    def java():
        return examine(
            [replace(HERE, checks=[each for each in machine.CHECKS if each.name == "Java"])]
        )

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (none,) = java()
    assert (none.severity, "install Java 17" in none.remedy) == ("fail", True)
    old = tmp_path / "home" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    (old_one,) = java()
    assert old_one.severity == "fail"
    assert "1.8.0_392" not in old_one.text or "too old" in old_one.text
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    (gone,) = java()
    assert gone.severity == "fail"


@pytest.mark.skipif(
    os.geteuid() == 0 and not Path("/proc").exists(),
    reason="needs a folder that cannot be written to",
)
def test_a_runs_folder_that_cannot_be_written_to_is_told_and_nothing_is_left_in_one_that_can(
    tmp_path,
):
    def found_at(uri):
        about = CheckTarget(tmp_path, pipeline_of(runs_uri=uri), 5)
        return examine(
            [replace(about, checks=[each for each in machine.CHECKS if each.name == "runs_uri"])]
        )

    found = found_at("/proc/runs")
    assert [each.severity for each in found] == ["fail"]
    assert "`runs_uri`" in found[0].remedy
    assert [each.severity for each in found_at("nosuchscheme://x/y")] == ["fail"]
    good = found_at(str(tmp_path / "runs"))
    assert [each.severity for each in good] == ["ok", "ok"]
    assert [path for path in (tmp_path / "runs").rglob("*") if path.is_file()] == []


@pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="takes a right away from root"
)
def test_a_cache_that_cannot_be_written_to_is_no_fault(tmp_path):
    """A run does without the cache: a service's user may have a home that is read-only."""
    (tmp_path / "cache").mkdir(mode=0o555)
    ordinary = (
        ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"]
        if os.geteuid() == 0
        else []
    )
    done = subprocess.run(
        [*ordinary, sys.executable, "-m", "shipper", "doctor", "--json"],
        cwd=tmp_path,
        env={**os.environ, "SHIPPER_CACHE": str(tmp_path / "cache" / "shipper")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    [cache] = [
        each
        for each in json.loads(done.stdout)["findings"]
        if each["subject"] == "disk" and str(tmp_path) in each["text"]
    ]
    assert cache["severity"] == "warn"
    assert cache["remedy"]


def test_a_java_that_never_listens_is_ended_at_the_limit_and_leaves_nothing(tmp_path, monkeypatch):
    java, temporary = tmp_path / "home" / "bin" / "java", tmp_path / "temporary"
    java.parent.mkdir(parents=True)
    temporary.mkdir()
    java.write_text(
        f"""#!/bin/sh
case "$*" in *-version*) echo 'openjdk version "17.0.1"' >&2; exit;; esac
echo $$ > {tmp_path}/began
exec sleep 600
"""
    )
    java.chmod(0o755)
    spec = "pipeline: web\nsource: logs\nclusters: [c]\ntopic: t\n"
    config = write_config(
        tmp_path,
        {"pipelines/web": spec, "clusters/c": "cluster: c\nbootstrap: 127.0.0.1:1\n"},
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    began, limit_seconds = tmp_path / "began", 2.0
    while not began.is_file():  # on a busy machine Python takes longer
        limit_seconds *= 2
        here = CheckTarget(config, load_pipeline(config, "web"), limit_seconds)
        [found] = machine.spark_and_source(here)
        assert found.severity == "fail"
    assert list(temporary.iterdir()) == []
    assert not Path("/proc", began.read_text().strip()).exists()


def test_the_latest_window_is_the_last_one_of_the_schedule_that_is_over():
    now = dt.datetime(2026, 11, 1, 6, 30, tzinfo=dt.UTC)
    hourly = machine.latest_window(pipeline_of(schedule="@hourly"), now)
    assert str(hourly) == "2026-11-01T05:00:00Z/2026-11-01T06:00:00Z"
    assert (
        str(machine.latest_window(pipeline_of(), now))
        == "2026-10-31T06:00:00Z/2026-11-01T06:00:00Z"
    )

"""The Flink contender's pure parts, and that a folder without it is passed over."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from shipper_tools.bench import flink
from shipper_tools.bench.plan import SCENARIOS, SPARK_SINK
from shipper_tools.bench.results import Case, Contender, Measurement, summarise

NAMESPACE = {"m": "http://maven.apache.org/POM/4.0.0"}
PRODUCER = {"acks": "all", "batch.size": "1000000", "bootstrap.servers": "127.0.0.1:9092"}


def told(command: list[str]) -> list[str]:
    """What follows the name of the class."""
    return command[command.index("FlinkSink") + 1 :]


def test_the_pom_names_flink_and_a_connector_made_for_it() -> None:
    found = {
        each.findtext("m:artifactId", namespaces=NAMESPACE): each.findtext("m:version", namespaces=NAMESPACE)
        for each in ET.fromstring(flink.pom()).iterfind("m:dependencies/m:dependency", NAMESPACE)
    }
    assert found["flink-clients"] == found["flink-connector-files"] == found["flink-connector-base"] == flink.VERSION
    assert found["flink-connector-kafka"] == flink.CONNECTOR_VERSION
    assert flink.VERSION.startswith(flink.CONNECTOR_VERSION.partition("-")[2])


def test_the_command_runs_our_job_with_the_producers_settings(tmp_path: Path) -> None:
    command = flink.command(tmp_path, tmp_path / "logs", "a-topic", PRODUCER)
    assert command[command.index("-cp") + 1].split(":") == [str(tmp_path / "classes"), f"{tmp_path}/*"]
    folder, topic, prefix, checkpoint_ms, *settings = told(command)
    assert (folder, topic) == (str(tmp_path / "logs"), "a-topic")
    assert prefix.startswith("bench-")
    assert f"checkpoints every {int(checkpoint_ms) // 1000} s" in flink.FLINK.settings
    assert set(settings) > {"acks=all", "batch.size=1000000", "bootstrap.servers=127.0.0.1:9092"}
    timeout = dict(setting.split("=") for setting in settings)["transaction.timeout.ms"]
    assert int(timeout) <= 15 * 60_000  # transaction.max.timeout.ms, by default


def test_each_run_has_transactional_ids_of_its_own(tmp_path: Path) -> None:
    first, second = (told(flink.command(tmp_path, tmp_path, "t", PRODUCER))[2] for _ in range(2))
    assert first != second


def test_a_folder_without_flink_is_passed_over_with_a_word(tmp_path: Path) -> None:
    said: list[str] = []
    assert flink.folder(None, said.append) is None
    assert flink.folder(tmp_path, said.append) is None
    assert len(said) == 2
    assert all("without Flink: build it with `python -m shipper_tools.bench.flink PEERS`" in line for line in said)


def test_jars_of_another_version_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "flink").mkdir()
    for name in ("flink-clients", "flink-connector-base", "flink-connector-files", "flink-connector-kafka"):
        (tmp_path / "flink" / f"{name}-1.0.jar").touch()
    said: list[str] = []
    assert flink.folder(tmp_path, said.append) is None
    assert len(said) == 1


def test_without_maven_it_says_that_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(flink.FlinkNotBuilt, match="Maven is needed"):
        flink.build(tmp_path / "peers")


def test_targets_against_sparks_sink_are_not_met_by_flink() -> None:
    case = Case(record_bytes=None, compression="zstd", partitions=16, lines=2_000_000)
    seconds = {Contender(name="shipper", ours=True): 20.0, flink.FLINK: 40.0, SPARK_SINK: 10.0}
    measured = [
        Measurement(case=case, contender=contender, round=1, records=2_000_000, bytes=1, seconds=took)
        for contender, took in seconds.items()
    ]
    rate = next(target for target in SCENARIOS["cold"].targets if target.question.startswith("2M lines, 0 ms, rate"))
    assert rate.verdict(summarise(measured)).found == 0.5
    assert rate.verdict(summarise(measured[:2])).found is None

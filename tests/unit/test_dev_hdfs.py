from __future__ import annotations

from pathlib import Path

import pytest
from shipper_tools.dev import hdfs
from shipper_tools.dev.errors import PortTaken, ServerDied
from shipper_tools.dev.hdfs import HdfsServer
from shipper_tools.dev.servers import DEFAULT, ServerName

from shipper.errors import JarsUnavailable


def test_it_is_started_when_it_is_asked_for_by_name() -> None:
    assert ServerName.HDFS not in DEFAULT


def test_a_server_that_was_not_started_has_neither_address_nor_process(tmp_path: Path) -> None:
    server = HdfsServer(tmp_path)
    assert (server.running, server.processes) == (False, ())
    with pytest.raises(ServerDied, match="before its first start"):
        _ = server.uri
    server.stop_datanode()
    server.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "why_unusable", lambda port: "is taken by another process")
    with pytest.raises(PortTaken, match=r"port 8020 on .* is taken by another process"):
        HdfsServer(tmp_path, port=8020).launch()
    assert list(tmp_path.iterdir()) == []


def test_without_pyspark_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(JarsUnavailable, match=r"pip install 'shipper\[spark\]'"):
        HdfsServer(tmp_path).launch()


def test_settings_are_written_as_xml(tmp_path: Path) -> None:
    server = HdfsServer(tmp_path / "a & b", settings={"dfs.blocksize": "<none>"}, die_with_parent=True)
    server.directory.mkdir()
    server.port = 1
    server._write_settings()
    written = (server.conf_dir / "hdfs-site.xml").read_text()
    assert "<name>dfs.blocksize</name><value>&lt;none&gt;</value>" in written
    assert "a%20%26%20b/data/name" in written

"""The servers that ``shipper dev`` knows, and how each is brought up and taken down."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from shipper.error_codes import without_code
from shipper.jars import Say
from shipper.processes import exclusive
from shipper_tools.dev import state
from shipper_tools.dev.airflow import AirflowServer
from shipper_tools.dev.errors import DevServerError, PortTaken
from shipper_tools.dev.hdfs import HdfsServer
from shipper_tools.dev.kafka import KafkaServer
from shipper_tools.dev.kerberos import KerberizedHdfs
from shipper_tools.dev.s3 import S3Server
from shipper_tools.dev.server import STOP_WITHIN_SECONDS, Server
from shipper_tools.dev.spark import SparkServer
from shipper_tools.dev.state import ServerState
from shipper_tools.dev.yarn import YarnServer


class ServerName(StrEnum):
    KAFKA = "kafka"
    S3 = "s3"
    HDFS = "hdfs"
    SPARK = "spark"
    YARN = "yarn"
    AIRFLOW = "airflow"


#: What `dev up` starts when nothing is named: a source and a target.
DEFAULT = (ServerName.KAFKA, ServerName.S3)
#: Where the example configuration expects them.
_PORTS: Mapping[ServerName, int] = {
    ServerName.KAFKA: 9092,
    ServerName.S3: 9000,
    ServerName.HDFS: 8020,
    ServerName.SPARK: 7077,
    ServerName.YARN: 8032,
    ServerName.AIRFLOW: 8080,
}
_SECURE_PORT = 9093
_NAMED_IN: Mapping[ServerName, str] = {
    ServerName.KAFKA: "config/clusters",
    ServerName.S3: "`source.s3`",
    ServerName.HDFS: "`source.path`",
    ServerName.SPARK: "`runner.master`",
}


#: Those that can want a login, and the option of `dev up` for it. Users are made with a server's
#: data, so it has a folder of its own then.
_SECURED: Mapping[str, str] = {ServerName.KAFKA: "secure", ServerName.HDFS: "kerberos"}


def _folder(home: Path, name: ServerName, secure: bool) -> Path:
    return home / (f"{name}-{_SECURED[name]}" if secure else name)


def bring_up(
    name: ServerName,
    home: Path,
    port: int | None,
    say: Say,
    *,
    secure: bool = False,
    config: Path = Path("config"),
) -> ServerState:
    """Start a server unless it runs, and remember it under ``home``. ``port``: None for its usual
    one, 0 for any. ``secure``: of Kafka, the one with TLS, a user and ACLs; of HDFS, the one with
    Kerberos. ``config``: whose pipelines Airflow runs.

    Raises:
        PortTaken: somebody else listens there. Nothing was started. DevServerError: it runs on
        another port than the one asked for, or for another configuration, or did not start.
    """
    with _alone(name, home, say):
        known = state.load(home, name)
        if known is not None and known.running:
            if what := _differs(known, port, secure, config):
                raise DevServerError(
                    f"{name} runs already, {what}: `shipper dev down {name}` first; its data stay."
                )
            say(f"{name} runs already")
            return known
        if known is not None:
            known.stop(STOP_WITHIN_SECONDS)  # one has died; the others would be in the way
        say(f"starting {name} …")
        usual = _SECURE_PORT if secure and name == ServerName.KAFKA else _PORTS[name]
        server = _server(name, home, (usual if port is None else port) or None, say, secure, config)
        try:
            server.launch()
        except PortTaken as taken:
            option = f" --{_SECURED.get(name)}"
            too = f" and name that one in {_NAMED_IN[name]} too" if name in _NAMED_IN else ""
            raise PortTaken(
                f"{without_code(taken.message)} Stop what listens there (`ss -ltnp` shows it; "
                f"perhaps `shipper dev up` in another folder), or choose another port with "
                f"`shipper dev up {name}{option * secure} --port PORT` (0: any free one){too}."
            ) from taken
        started = ServerState(
            name, server.addresses, server.directory, server.processes, ready=False
        )
        # Before it is ready: should this command be killed now, the next one finds the server and
        # can stop it.
        state.save(home, started)
        try:
            server.wait_ready()
        except BaseException:
            server.stop()
            state.forget(home, name)
            raise
        state.save(home, started := replace(started, processes=server.processes, ready=True))
        return started


def _server(
    name: ServerName, home: Path, port: int | None, say: Say, secure: bool, config: Path
) -> Server:
    folder = _folder(home, name, secure)
    match name:
        case ServerName.KAFKA if secure:
            from shipper_tools.dev.secure import SecureKafka  # certificates: slow to import

            return SecureKafka(folder, port, say)
        case ServerName.KAFKA:
            return KafkaServer(folder, port, say=say)
        case ServerName.S3:
            return S3Server(folder, port, say=say)
        case ServerName.HDFS:
            return (KerberizedHdfs if secure else HdfsServer)(folder, port, say=say)
        case ServerName.SPARK:
            return SparkServer(folder, port, say=say)
        case ServerName.YARN:
            hdfs = state.load(home, ServerName.HDFS)
            where = hdfs.addresses["uri"] if hdfs is not None and hdfs.running else "file:///"
            return YarnServer(folder, port, file_system=where, say=say)
        case ServerName.AIRFLOW:
            return AirflowServer(folder, port, config, say)


def _differs(known: ServerState, port: int | None, secure: bool, config: Path) -> str:
    """Return how the server differs from the one that is asked for; empty if it does not."""
    addresses = known.addresses
    if port and not any(address.endswith(f":{port}") for address in addresses.values()):
        return f"at {', '.join(addresses.values())}, not on port {port}"
    if secure != bool({"secure", "keytab"} & addresses.keys()):
        return f"{'without' if secure else 'with'} --{_SECURED.get(known.name)}"
    if addresses.get("config", str(config.absolute())) != str(config.absolute()):
        return f"with the configuration {addresses['config']}"
    return ""


def take_down(name: ServerName, home: Path, say: Say) -> None:
    """Stop a server if it runs. Its data stay."""
    with _alone(name, home, say):
        known = state.load(home, name)
        if known is None or not known.running:
            say(f"{name} is not running")
        if known is not None:
            known.stop(STOP_WITHIN_SECONDS)  # one may have died; the others are stopped
            state.forget(home, name)


def _alone(name: ServerName, home: Path, say: Say) -> AbstractContextManager[None]:
    return exclusive(
        home / f"{name}.lock", lambda: say(f"waiting for another command that deals with {name}")
    )


def purge(name: ServerName, home: Path) -> None:
    """Delete the data and logs of a server that was taken down."""
    for secure in {False, name in _SECURED}:
        shutil.rmtree(_folder(home, name, secure), ignore_errors=True)


def remembered(home: Path) -> list[ServerState]:
    """The servers that were started and not stopped, those that died included."""
    return [known for name in ServerName if (known := state.load(home, name)) is not None]

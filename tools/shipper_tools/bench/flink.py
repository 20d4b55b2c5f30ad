"""Flink's FileSource → KafkaSink, exactly once: the peer that promises what shipper promises. What
it is built of, and its command.

``python -m shipper_tools.bench.flink PEERS`` fetches it into PEERS/flink, with Maven and as the
user's Maven settings say.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from shipper.errors import ShipperError
from shipper_tools.bench.results import Contender
from shipper_tools.dev.java import find_java

VERSION = "2.2.1"
CONNECTOR_VERSION = "5.0.0-2.2"
"""The newest; it is made for that Flink."""
_JARS = {
    "flink-clients": VERSION,
    "flink-connector-base": VERSION,
    "flink-connector-files": VERSION,
    "flink-connector-kafka": CONNECTOR_VERSION,
}
_CHECKPOINT_SECONDS = 5
"""A job whose input has ended waits for the next checkpoint, so with seldom ones a short run would
measure that; and each one holds up the sending for some round trips. Tried once each on a busy
machine at 140 ms: with 2, 5 and 10 s, 2 million lines took 22, 14 and 15 s, 6 million 36, 35 and 29
s."""
_TRANSACTION_TIMEOUT_MS = 600_000
"""Flink's own default is an hour, which a broker refuses: by default it allows 15 minutes."""
_HEAP = "2g"
"""As for Spark's driver."""
_SOURCE = Path(__file__).with_name("FlinkSink.java")
FLINK = Contender(
    name="Flink",
    settings=f"exactly once; Flink {VERSION}, 2 tasks; checkpoints every {_CHECKPOINT_SECONDS} s; "
    "acks=all, linger 100 ms, 1 MB batches",
)


class FlinkNotBuilt(ShipperError):
    """Its jars cannot be fetched, or its job cannot be compiled."""


def folder(peers_folder: Path | None, say: Callable[[str], None]) -> Path | None:
    """Where it is, ready to run; None, and a word about it, if it was not built, or for other
    versions."""
    if peers_folder is None or not all(
        (peers_folder / "flink" / jar).is_file() for jar in _jar_names()
    ):
        say(
            "without Flink: build it with `python -m shipper_tools.bench.flink PEERS`, and name "
            "that folder in --peers"
        )
        return None
    _compile(peers_folder / "flink")
    return peers_folder / "flink"


def command(folder: Path, files: Path, topic: str, producer: Mapping[str, str]) -> list[str]:
    """Ships all files of a folder. Of each run the transactional ids are its own: it has nothing to
    go on with from another."""
    settings = {**producer, "transaction.timeout.ms": str(_TRANSACTION_TIMEOUT_MS)}
    told = [str(files), topic, f"bench-{uuid.uuid4().hex}", str(_CHECKPOINT_SECONDS * 1000)]
    classes = f"{folder / 'classes'}{os.pathsep}{folder}/*"
    java = [str(find_java().path), f"-Xmx{_HEAP}", "-cp", classes, "FlinkSink"]
    return [*java, *told, *(f"{key}={value}" for key, value in settings.items())]


def pom() -> str:
    """What Maven is to fetch, with all that it needs."""
    dependencies = "\n".join(
        f"<dependency><groupId>org.apache.flink</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for name, version in _JARS.items()
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>\n'
        "<groupId>peers</groupId><artifactId>peers-flink</artifactId><version>1</version><packaging>pom</packaging>\n"
        f"<dependencies>\n{dependencies}\n</dependencies></project>\n"
    )


def build(peers_folder: Path) -> Path:
    """Anew. Raises FlinkNotBuilt."""
    built, described = peers_folder / "flink", peers_folder / "pom-flink.xml"
    shutil.rmtree(built, ignore_errors=True)  # jars of other versions
    built.mkdir(parents=True)
    described.write_text(pom())
    _run(
        ["mvn", "-q", "-B", "-f", str(described), "dependency:copy-dependencies",
         "-DincludeScope=runtime", f"-DoutputDirectory={built.resolve()}"],
        "Flink's jars cannot be fetched (Maven is needed, and what its settings name)",
    )  # fmt: skip
    _compile(built)
    return built


def _jar_names() -> list[str]:
    return [f"{name}-{version}.jar" for name, version in _JARS.items()]


def _compile(built: Path) -> None:
    """Our job, if it was not yet or has changed since; with the Java that will run it."""
    compiled = built / "classes" / f"{_SOURCE.stem}.class"
    if compiled.is_file() and compiled.stat().st_mtime > _SOURCE.stat().st_mtime:
        return
    compiler = [str(find_java().path), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    options = ["--release", "17", "-cp", os.pathsep.join(map(str, built.glob("*.jar")))]
    _run(
        [*compiler, *options, "-d", str(compiled.parent), str(_SOURCE)],
        "Flink's job cannot be compiled (a JDK is needed)",
    )


def _run(command: list[str], trouble: str) -> None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        raise FlinkNotBuilt(f"{trouble}: {error}") from error
    if done.returncode:
        raise FlinkNotBuilt(f"{trouble}: {(done.stdout + done.stderr).strip()[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m shipper_tools.bench.flink",
        description="Builds the Flink contender into PEERS/flink.",
    )
    parser.add_argument(
        "peers", metavar="PEERS", type=Path, help="the folder that --peers of `shipper bench` names"
    )
    try:
        print(f"Flink {VERSION} is in {build(parser.parse_args().peers)}")
    except ShipperError as error:
        raise SystemExit(str(error)) from error


if __name__ == "__main__":
    main()

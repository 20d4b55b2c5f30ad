"""Flink's FileSource → KafkaSink, exactly once: the peer that promises what shipper promises. What
it is built of, and its command.

``python -m shipper_tools.bench.flink PEERS`` fetches it into PEERS/flink.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from shipper.errors import ShipperError, UsageError
from shipper.java import find_java
from shipper_tools.bench.results import Contender
from shipper_tools.dev.relock import resolve

VERSION = "2.2.1"
CONNECTOR_VERSION = "5.0.0-2.2"
"""The newest; it is made for that Flink."""
_JARS = (
    f"flink-clients:{VERSION}",
    f"flink-connector-base:{VERSION}",
    f"flink-connector-files:{VERSION}",
    f"flink-connector-kafka:{CONNECTOR_VERSION}",
)
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


def folder(peers_folder: Path | None, say: Callable[[str], None]) -> Path | None:
    """Return where it is, ready to run; None, and a word about it, if it was not built, or for
    other versions."""
    built = peers_folder / "flink" if peers_folder else None
    if not built or not all((built / f"{jar.replace(':', '-')}.jar").is_file() for jar in _JARS):
        say(
            "without Flink: build it with `python -m shipper_tools.bench.flink PEERS`, and name "
            "that folder in --peers"
        )
        return None
    _compile(built)
    return built


def command(folder: Path, files: Path, topic: str, producer: Mapping[str, str]) -> list[str]:
    """Ships all files of a folder. Of each run the transactional ids are its own: it has nothing to
    go on with from another."""
    settings = {**producer, "transaction.timeout.ms": str(_TRANSACTION_TIMEOUT_MS)}
    told = [str(files), topic, f"bench-{uuid.uuid4().hex}", str(_CHECKPOINT_SECONDS * 1000)]
    classes = f"{folder / 'classes'}{os.pathsep}{folder}/*"
    java = [str(find_java().path), f"-Xmx{_HEAP}", "-cp", classes, "FlinkSink"]
    return [*java, *told, *(f"{key}={value}" for key, value in settings.items())]


def build(peers_folder: Path) -> Path:
    """Build it anew, and return its folder. Raises JarsUnavailable, UsageError."""
    built = peers_folder / "flink"
    shutil.rmtree(built, ignore_errors=True)  # jars of other versions
    built.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as fetched:
        for jar in resolve([f"org.apache.flink:{jar}" for jar in _JARS], Path(fetched)):
            shutil.move(jar, built)
    _compile(built)
    return built


def _compile(built: Path) -> None:
    """Our job, if it was not yet or has changed since; with the Java that will run it."""
    compiled = built / "classes" / f"{_SOURCE.stem}.class"
    if compiled.is_file() and compiled.stat().st_mtime > _SOURCE.stat().st_mtime:
        return
    compiler = [str(find_java().path), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    options = ["--release", "17", "-cp", os.pathsep.join(map(str, built.glob("*.jar")))]
    command = [*compiler, *options, "-d", str(compiled.parent), str(_SOURCE)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-2000:]
        raise UsageError(f"Flink's job cannot be compiled (a JDK is needed): {said}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m shipper_tools.bench.flink",
        description="Builds the Flink contender into PEERS/flink.",
    )
    parser.add_argument("peers", type=Path, help="the folder that --peers of `shipper bench` names")
    try:
        print(f"Flink {VERSION} is in {build(parser.parse_args().peers)}")
    except ShipperError as error:
        raise SystemExit(error.message) from error


if __name__ == "__main__":
    main()

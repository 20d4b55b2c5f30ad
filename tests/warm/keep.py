"""A broker and a JVM that are kept for the next test: ``make warm`` in one terminal, ``pytest
tests/integration/…`` in another, as often as it is wanted. One pytest at a time has them; another
one beside it starts its own, as all do when nothing is kept.

Python is not kept: the next test is to run the code as it is then. Java's part of it (jvm/) is as
it was when this started.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from confluent_kafka.admin import AdminClient
from shipper_tools.dev.kafka import KafkaServer

from shipper.processes import ProcessId
from tests.warm.jvm import WarmJava

FOLDER = Path(__file__).parents[2] / ".dev" / "warm"
STATE = FOLDER / "state.json"

_held: IO[str] | None = None
"""Locked as long as this process has what is kept."""


@dataclass(frozen=True)
class Kept:
    kafka_port: int
    java_port: int
    java_secret: str
    java_process: ProcessId

    def kafka(self) -> KafkaServer:
        """Without the topics of earlier tests. It cannot be stopped from here."""
        server = KafkaServer(FOLDER / "kafka", self.kafka_port)
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        topics = [
            name for name in admin.list_topics(timeout=10).topics if not name.startswith("__")
        ]
        for deleted in admin.delete_topics(topics).values() if topics else []:
            deleted.result()
        return server

    def java(self) -> WarmJava | None:
        """None if a test has ended it."""
        if not self.java_process.alive():
            return None
        return WarmJava(self.java_port, self.java_secret, FOLDER / "java.log", self.java_process)


def kept() -> Kept | None:
    """What is kept, for this process alone from now on; None if nothing is, or another one
    has it."""
    global _held
    if _held is None:
        if not STATE.exists():
            return None
        file = (FOLDER / "used").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        _held = file
    try:
        state = json.loads(STATE.read_text())
    except FileNotFoundError:
        return None
    if not ProcessId(*state["keeper"]).alive():
        return None
    return Kept(state["kafka"], state["java"], state["secret"], ProcessId(*state["process"]))


def say(kafka_port: int, java: WarmJava) -> None:
    """For :func:`kept`, as long as this process lives. The JVM's secret is for this user alone."""
    keeper = ProcessId.of(os.getpid())
    state = {
        "keeper": [keeper.pid, keeper.started],
        "kafka": kafka_port,
        "java": java.port,
        "secret": java.secret,
        "process": [java.process.pid, java.process.started],
    }
    new = STATE.with_suffix(".new")
    new.touch(0o600)
    new.write_text(json.dumps(state))
    new.replace(STATE)

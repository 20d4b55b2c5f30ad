"""See keep.py."""

from __future__ import annotations

import contextlib
import time

from shipper_tools.dev.java import SHORT_LIVED
from shipper_tools.dev.kafka import KafkaServer

from shipper.processes import exclusive
from tests.warm import keep
from tests.warm.jvm import WarmJava, python_of


def main() -> None:
    keep.FOLDER.mkdir(parents=True, exist_ok=True)
    with (
        exclusive(keep.FOLDER / "lock"),
        KafkaServer(keep.FOLDER / "kafka", java_options=SHORT_LIVED, die_with_parent=True) as kafka,
    ):
        assert kafka.port is not None
        try:
            while True:
                java = WarmJava.start(keep.FOLDER, python_of(keep.FOLDER))
                keep.say(kafka.port, java)
                print(
                    f"Kafka at {kafka.bootstrap} and a JVM are warm: run tests in another "
                    "terminal. Ctrl-C ends them.",
                    flush=True,
                )
                while java.process.alive():  # a command that left it unclean ends it
                    time.sleep(0.2)
        finally:
            keep.STATE.unlink(missing_ok=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()

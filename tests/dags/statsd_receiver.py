"""A receiver of StatsD on loopback: what arrives, and the series of Prometheus that the example's
mapping makes of it."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ruamel.yaml import YAML

EXAMPLE = Path(__file__).parents[2] / "examples" / "monitoring"
_LINE = re.compile(r"([\w.]+)((?:,\w+=[^,:]*)*):([^|]+)\|(c|g)")


@dataclass
class StatsdReceived:
    port: int
    lines: list[str] = field(default_factory=list)
    """In the order of arrival."""

    def series(self) -> dict[str, float]:
        """Name with its labels, by name → value, as statsd_exporter has them: counters add up,
        gauges are replaced."""
        found = {}
        for line in self.lines:
            if (match := _LINE.fullmatch(line)) and (name := _mapped(match[1], match[4])):
                labels = ",".join(
                    re.sub("=(.*)", r'="\1"', tag) for tag in sorted(match[2].split(",")[1:])
                )
                series = f"{name}{{{labels}}}"
                found[series] = float(match[3]) + (
                    found.get(series, 0.0) if match[4] == "c" else 0.0
                )
        return found


def _mapped(name, kind):
    """By the first rule of the example's mapping that matches; None for a metric that no rule is
    about."""
    rules = YAML(typ="safe").load(EXAMPLE / "statsd-mapping.yml")["mappings"]
    for rule in rules:
        pattern = re.escape(rule["match"]).replace(r"\*", r"([^.]*)")
        if rule["match_metric_type"][0] == kind and (match := re.fullmatch(pattern, name)):
            return rule["name"].replace("${1}", match[1])
    return None


@contextmanager
def statsd_receiver() -> Iterator[StatsdReceived]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        received = StatsdReceived(server.getsockname()[1])

        def listen():
            while packet := server.recv(65536):
                received.lines += packet.decode().splitlines()

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield received
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.sendto(b"", ("127.0.0.1", received.port))
            thread.join()

"""Three Kafka brokers and a controller, each a process of its own, to be killed, paused and cut
off.

Why one controller beside the brokers, rather than three nodes that are both: any two brokers may be
killed or paused and somebody still elects leaders, so that "under min ISR" can be tested as well as
"the leader died".
"""

from __future__ import annotations

import contextlib
import json
import signal
import struct
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, PartitionMetadata  # type: ignore[attr-defined]  # in its documentation, and not in __all__
from shipper_tools.dev.errors import DevServerError, ServerDied
from shipper_tools.dev.java import SHORT_LIVED
from shipper_tools.dev.kafka import KafkaServer, new_cluster_id
from shipper_tools.dev.kafka_tools import run_kafka_tool
from shipper_tools.dev.ports import LOOPBACK, free_port
from shipper_tools.dev.process import send

from shipper.config.cluster import Cluster
from shipper.kafka.client import ClusterClient
from tests.waiting import slowness

BROKERS = (1, 2, 3)
_CONTROLLER = 9
_TRANSACTION_LOG, _TRANSACTION_LOG_PARTITIONS = "__transaction_state", 6
_TOOLS = "org.apache.kafka.tools"
NO_LEADER = -1

_PROPERTIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": str(_TRANSACTION_LOG_PARTITIONS),
    # A broker that says nothing for so long is out, and others lead: 9 s by default, most of a
    # fault's time.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    # How often brokers look for transactions that have timed out: 10 s by default.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # Four JVMs share the machine with what is tested.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.threads": "1",
    "background.threads": "2",
}


@dataclass(frozen=True)
class Listener:
    """Ports of a broker: the one that clients are told, and the one where it really listens for
    them (the same without a proxy); and that for other brokers, which nothing is ever put before.
    """

    advertised_port: int
    port: int
    internal_port: int


#: Puts something before a broker: gets its number and port, returns the port to advertise.
Front = Callable[[int, int], int]


def no_front(broker: int, port: int) -> int:
    return port


class KafkaCluster:
    """::

        with KafkaCluster(tmp_path) as kafka:
            kafka.create_topic("logs", partitions=6)
            kafka.kill(kafka.leader_of("logs", 0))

    Topics have three replicas, two of which must be in sync. Clients speak PLAINTEXT; brokers speak
    to each other and to the controller on ports of their own, so that what is put before a broker
    (``front``) hurts clients alone.

    Args:
        directory: made if it is not there.
        front: puts something (a fault proxy) before each broker's listener for clients.
        properties: broker properties on top of these.
        heap_mb: Java's maximum heap per process, in MiB. A process takes some 250 MB in all.
    """

    def __init__(
        self,
        directory: Path,
        front: Front = no_front,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 256,
    ):
        cluster_id, voter_port = new_cluster_id(), free_port()
        voters = {"controller.quorum.voters": f"{_CONTROLLER}@{LOOPBACK}:{voter_port}"}
        shared = _PROPERTIES | dict(properties or {}) | voters
        controller = _controller_properties(voter_port)
        self._controller = _ClusterNode(
            cluster_id, directory / "controller", voter_port, shared | controller, heap_mb
        )
        self.listeners: dict[int, Listener] = {}
        self._brokers: dict[int, _ClusterNode] = {}
        for broker in BROKERS:
            port = free_port()
            self.listeners[broker] = Listener(front(broker, port), port, free_port())
            own = _broker_properties(broker, self.listeners[broker])
            self._brokers[broker] = _ClusterNode(
                cluster_id, directory / f"broker-{broker}", port, shared | own, heap_mb
            )

    @property
    def bootstrap(self) -> str:
        """All brokers, as clients see them."""
        return ",".join(
            f"{LOOPBACK}:{listener.advertised_port}" for listener in self.listeners.values()
        )

    @property
    def direct_bootstrap(self) -> str:
        """All brokers, for a first contact past whatever is in front of them; they advertise the
        front all the same."""
        return ",".join(f"{LOOPBACK}:{listener.port}" for listener in self.listeners.values())

    @property
    def settings(self) -> Cluster:
        """The cluster as shipper's config describes it."""
        return Cluster.model_validate({"cluster": "three", "bootstrap": self.bootstrap})

    # Processes

    def start(self):
        """Starts all four and waits until every broker answers: 10 seconds on two cores.

        Raises:
            DevServerError: one of them did not start; then none is left running.
        """
        nodes = [self._controller, *self._brokers.values()]
        try:
            with ThreadPoolExecutor(len(nodes)) as pool:
                list(pool.map(lambda node: node.launch(), nodes))
            for node in nodes:
                node.wait_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self):
        """At once and without goodbye: nobody will need what they hold."""
        for node in [*self._brokers.values(), self._controller]:
            node.kill()

    def kill(self, broker: int):
        """KILL. Other brokers lead its partitions after four seconds or so; see
        :meth:`wait_for`."""
        self._brokers[broker].kill()

    def restart(self, broker: int, *, wait: bool = True):
        """Starts a broker that was killed, with the data that it had. Wakes one that was paused."""
        self.resume(broker)
        self._brokers[broker].launch()
        if wait:
            self._brokers[broker].wait_ready()

    def pause(self, broker: int):
        """SIGSTOP: its connections stay open and say nothing."""
        self._brokers[broker].signal(signal.SIGSTOP)

    def resume(self, broker: int):
        """SIGCONT. Does nothing to a broker that runs or is dead."""
        self._brokers[broker].signal(signal.SIGCONT)

    def running(self, broker: int) -> bool:
        """Whether its process is there; it may be paused."""
        return self._brokers[broker].running

    def log(self, broker: int) -> Path:
        return self._brokers[broker].directory / "logs" / "server.log"

    def heal(self, within_seconds: float = 90.0):
        """All brokers up, and every replica of every partition of the transaction log in sync
        again."""
        for broker in BROKERS:
            self.restart(broker, wait=False)
        for node in self._brokers.values():
            node.wait_ready()
        self.wait_until_in_sync(_TRANSACTION_LOG, within_seconds)

    # What it knows

    def partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        """Partition → its leader (:data:`NO_LEADER` while there is none), replicas and in-sync
        replicas; empty if there is no such topic. By a new client each time, which asks one broker
        and remembers nothing: whoever has just killed a leader must know what is true now.

        Raises:
            ServerDied: no broker answers.
        """
        for broker, listener in self.listeners.items():
            if self.running(broker):
                client = AdminClient(
                    {"bootstrap.servers": f"{LOOPBACK}:{listener.internal_port}", "log_level": 0}
                )
                with contextlib.suppress(KafkaException):
                    found = client.list_topics(topic, timeout=1.0).topics[topic].partitions
                    return found
        raise ServerDied("No broker of the cluster answers.")

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Raises ServerDied if the partition has no leader now, or is not there."""
        state = self.partitions(topic).get(partition)
        if state is None or state.leader == NO_LEADER:
            raise ServerDied(f"Partition {partition} of topic {topic} has no leader: {state}.")
        return state.leader

    def coordinator_of(self, transactional_id: str) -> int:
        """The broker that begins and ends this producer's transactions. Raises ServerDied if there
        is none now."""
        return self.leader_of(
            _TRANSACTION_LOG, transaction_partition(transactional_id, _TRANSACTION_LOG_PARTITIONS)
        )

    def wait_until_in_sync(self, topic: str, within_seconds: float = 60.0):
        """Until every partition of ``topic`` has a leader and all its replicas in sync; at once if
        there is no such topic."""

        def in_sync():
            states = self.partitions(topic).values()
            return all(
                state.leader != NO_LEADER and len(state.isrs) == len(state.replicas)
                for state in states
            )

        self.wait_for(in_sync, f"all replicas of {topic} in sync", within_seconds)

    def wait_for(self, holds: Callable[[], bool], what: str, within_seconds: float = 60.0):
        """Raises DevServerError if it does not hold in time."""
        deadline = time.monotonic() + within_seconds * slowness()
        while True:
            with contextlib.suppress(ServerDied):
                if holds():
                    return
            if time.monotonic() > deadline:
                raise DevServerError(
                    f"The cluster did not get there within {within_seconds:.0f} s: {what}."
                )
            time.sleep(0.1)

    # What an administrator does to it

    def create_topic(self, topic: str, partitions: int = 1, **settings: str):
        """``settings`` with underscores for dots: ``min_insync_replicas="3"``. One that is there
        stays as it is."""
        names = {name.replace("_", "."): value for name, value in settings.items()}
        ClusterClient(self.settings).create_topics({topic: partitions}, names, len(BROKERS))
        self.wait_for(lambda: len(self.partitions(topic)) == partitions, f"topic {topic} is there")

    def delete_topic(self, topic: str):
        self._tool("TopicCommand", "--delete", "--topic", topic)
        self.wait_for(lambda: not self.partitions(topic), f"topic {topic} is gone")

    def add_partitions(self, topic: str, total: int):
        self._tool("TopicCommand", "--alter", "--topic", topic, "--partitions", str(total))
        self.wait_for(
            lambda: len(self.partitions(topic)) == total, f"topic {topic} has {total} partitions"
        )

    def move_leader(self, topic: str, partition: int = 0) -> int:
        """Makes the next replica the leader, as an administrator who reassigns partitions does;
        returns its number."""
        state = self.partitions(topic)[partition]
        chosen = next(
            broker for broker in BROKERS if broker != state.leader and broker in state.isrs
        )
        replicas = [chosen, *(broker for broker in state.replicas if broker != chosen)]
        moves = {
            "version": 1,
            "partitions": [{"topic": topic, "partition": partition, "replicas": replicas}],
        }
        with _json_file(moves) as path:
            self._tool(
                "reassign.ReassignPartitionsCommand", "--execute", "--reassignment-json-file", path
            )
        self._tool(
            "LeaderElectionCommand",
            "--election-type",
            "preferred",
            "--topic",
            topic,
            "--partition",
            str(partition),
        )
        self.wait_for(
            lambda: self.leader_of(topic, partition) == chosen,
            f"{topic}-{partition} is led by broker {chosen}",
        )
        return chosen

    def _tool(self, name, *arguments):
        run_kafka_tool(
            f"{_TOOLS}.{name}",
            ["--bootstrap-server", self.direct_bootstrap, *arguments],
            timeout_seconds=60,
        )

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, error, traceback):
        self.stop()


class _ClusterNode(KafkaServer):
    """One process of the cluster. It ends when this process does, however that went."""

    def __init__(
        self,
        cluster_id: str,
        directory: Path,
        port: int,
        properties: Mapping[str, str],
        heap_mb: int,
    ):
        super().__init__(
            directory,
            port,
            properties,
            heap_mb,
            java_options=SHORT_LIVED,
            cluster_id=cluster_id,
            die_with_parent=True,
        )

    def kill(self):
        self.signal(signal.SIGKILL)
        self.stop()  # it is dead, or about to be: this waits and clears up

    def signal(self, number: signal.Signals):
        for process in self.processes:
            send(process, number)


def _controller_properties(port):
    return {
        "process.roles": "controller",
        "node.id": str(_CONTROLLER),
        "listeners": f"CONTROLLER://{LOOPBACK}:{port}",
        "advertised.listeners": f"CONTROLLER://{LOOPBACK}:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT",  # noqa: E501
        "inter.broker.listener.name": "INTERNAL",
    }


def _broker_properties(broker, listener):
    internal = listener.internal_port
    return {
        "process.roles": "broker",
        "node.id": str(broker),
        "listeners": f"CLIENT://{LOOPBACK}:{listener.port},INTERNAL://{LOOPBACK}:{internal}",
        "advertised.listeners": f"CLIENT://{LOOPBACK}:{listener.advertised_port},INTERNAL://{LOOPBACK}:{internal}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,CLIENT:PLAINTEXT",  # noqa: E501
        "inter.broker.listener.name": "INTERNAL",
    }


@contextlib.contextmanager
def _json_file(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "moves.json"
        path.write_text(json.dumps(content))
        yield str(path)


def transaction_partition(transactional_id: str, partitions: int) -> int:
    """The partition of ``__transaction_state`` that keeps a transactional.id: Java's
    ``String.hashCode``, its absolute value, modulo.

    Its leader is the id's coordinator
    (kafka.coordinator.transaction.TransactionStateManager.partitionFor).
    """
    value = 0
    units = transactional_id.encode("utf-16-be")
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return 0 if signed == -(1 << 31) else abs(signed) % partitions

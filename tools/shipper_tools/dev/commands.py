"""``shipper dev up``, ``down`` and ``status``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from shipper.errors import UsageError
from shipper.terminal import visible
from shipper_tools.dev import servers
from shipper_tools.dev.airflow import SAVED_TO_DAG_SECONDS
from shipper_tools.dev.http import Refused
from shipper_tools.dev.kerberos import USER
from shipper_tools.dev.s3 import ACCESS_KEY, SECRET_KEY
from shipper_tools.dev.s3_client import S3Client
from shipper_tools.dev.servers import ServerName
from shipper_tools.dev.state import ServerState, dev_home, load

if TYPE_CHECKING:
    from shipper.kafka.client import ClusterClient

app = typer.Typer(
    name="dev",
    help="Real servers for development, from jars alone: no Docker needed, only Java 17 or newer.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else on stdout.")
]


@app.command(
    epilog="Examples: `shipper dev up` · `shipper dev up kafka airflow` · `shipper dev up kafka "
    "--port 19092` (0: any free port)"
)
def up(
    names: Annotated[
        list[ServerName] | None, typer.Argument(help="Which servers.", show_default="kafka s3")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Where clients connect; 0 takes any free port.",
            show_default="kafka 9092, secured 9093, s3 9000, hdfs 8020, spark 7077, airflow 8080",
        ),
    ] = None,
    config: Annotated[
        Path,
        typer.Option(
            "--config",
            envvar="SHIPPER_CONFIG",
            help="Of Airflow: the folder whose pipelines are its DAGs.",
        ),
    ] = Path("config"),
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="Kafka with TLS, a user and ACLs (SASL_SSL), and a cluster file to use it.",
        ),
    ] = False,
    kerberos: Annotated[
        bool,
        typer.Option("--kerberos", help="HDFS with a KDC, which takes no word without a login."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start servers on loopback and leave them running.

    By default a Kafka and an S3 server: a target and a source. The S3 server's access key is
    `shipper`, its secret key `shipper-development-only`. Airflow has no login, and PostgreSQL as
    its database where that is installed. A server that runs already is left as it is. Data are kept
    in .dev/ (or $SHIPPER_DEV_HOME) and are there again after the next start. The first time, the
    jars are fetched into ~/.cache/shipper (or $SHIPPER_CACHE).
    """
    chosen = list(dict.fromkeys(names)) if names else list(servers.DEFAULT)
    if port is not None and len(chosen) != 1:
        raise typer.BadParameter(
            "--port needs exactly one server, e.g. `shipper dev up kafka --port 19092`."
        )
    if secure and ServerName.KAFKA not in chosen:
        raise typer.BadParameter("--secure is for kafka.")
    if kerberos and ServerName.HDFS not in chosen:
        raise typer.BadParameter("--kerberos is for hdfs.")
    home = dev_home()
    started = [
        servers.bring_up(
            name,
            home,
            port,
            _say,
            secure=(secure and name == ServerName.KAFKA) or (kerberos and name == ServerName.HDFS),
            config=config,
        )
        for name in chosen
    ]
    if as_json:
        _print_json(started)
        return
    for server in started:
        folder = _short(server.directory)
        _print(f"{server.name} runs at {_addresses(server)} ({_pids(server)}, data in {folder})")
        if "secure" in server.addresses:
            _print(
                f"To use it: cp {folder}/secure.yaml config/clusters/, and `clusters: [secure]` in "
                "a pipeline"
            )
        if "keytab" in server.addresses:
            _print(
                f"To use it: export HADOOP_CONF_DIR={server.directory}/conf "
                f"JAVA_TOOL_OPTIONS=-Djava.security.krb5.conf={server.directory}/krb5.conf, and in "
                f"a pipeline `runner: {{conf: {{spark.kerberos.principal: {USER}, "
                f"spark.kerberos.keytab: {server.addresses['keytab']}}}}}`"
            )
        if server.name == ServerName.YARN:
            _print(
                f"To use it: export HADOOP_CONF_DIR={folder}/conf, and `runner: {{kind: yarn}}` in "
                "a pipeline"
            )
        if server.name == ServerName.AIRFLOW:
            _print(
                "No login: who reaches the port is its administrator. A pipeline that is saved in "
                f"{_short(config.absolute())} is a DAG within {SAVED_TO_DAG_SECONDS} s, paused at "
                f"first. Its commands: AIRFLOW_HOME={folder} airflow …"
            )


@app.command(epilog="Examples: `shipper dev down` · `shipper dev down kafka --purge`")
def down(
    names: Annotated[
        list[ServerName] | None, typer.Argument(help="Which servers.", show_default="all of them")
    ] = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete their data and logs as well.")
    ] = False,
) -> None:
    """Stop servers. Their data stay, unless --purge is given."""
    home = dev_home()
    known = [server.name for server in servers.remembered(home)]
    there = [
        name for name in ServerName if name in (*servers.DEFAULT, *known) or (home / name).exists()
    ]
    for name in dict.fromkeys(names or there):
        servers.take_down(name, home, _say)
        if purge:
            servers.purge(name, home)
        _print(f"{name} is down" + (" and its data are deleted" if purge else ""))


@app.command(epilog="Examples: `shipper dev status` · `shipper dev status --json`")
def status(as_json: AsJson = False) -> None:
    """Say which servers run, and where. Exit code 1 if one that was started has died."""
    home = dev_home()
    known = {server.name: server for server in servers.remembered(home)}
    died = any(not server.running for server in known.values())
    if as_json:
        _print_json([server for server in known.values() if server.running])
        raise typer.Exit(1 if died else 0)
    table = Table("server", "state", "address", "processes", "folder", box=None, pad_edge=False)
    for name in ServerName:
        server = known.get(name)
        if server is None:
            table.add_row(name, "down", "", "", "")
        else:
            alive = "running" if server.ready else "starting"
            state = alive if server.running else "died (see its logs/)"
            table.add_row(name, state, _addresses(server), _pids(server), _short(server.directory))
    Console().print(table)
    raise typer.Exit(1 if died else 0)


@app.command(epilog="Example: `shipper dev topic logs.web --partitions 3`")
def topic(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Names of topics.")],
    partitions: Annotated[
        int, typer.Option(min=1, help="How many each has, if it is not there yet.")
    ] = 3,
) -> None:
    """Create topics on the Kafka of `shipper dev up`; one that is there stays as it is."""
    from shipper.config.rules import check_topic

    for name in names:
        try:
            check_topic(name)
        except ValueError as error:
            raise UsageError(
                f"{name!r} cannot be created: {error}. Nothing was created."
            ) from error
    _kafka().create_topics(dict.fromkeys(names, partitions))
    for name in names:
        _print(f"topic {name} is there")


@app.command(epilog="Example: `shipper dev read logs.web | wc -l`")
def read(name: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]) -> None:
    """Print every committed value of a topic of that Kafka, as a `read_committed` consumer sees it,
    one per line."""
    from shipper_tools.dev.console_consumer import read_topic

    if name not in _kafka().topics():
        raise UsageError(
            f"There is no topic {visible(name)} on the Kafka of `shipper dev up`. `shipper dev "
            "topic NAME` creates one."
        )
    for value in read_topic(_address(ServerName.KAFKA), name):
        if sys.stdout.isatty():
            print(visible(value.decode(errors="replace")))
        else:
            sys.stdout.buffer.write(value + b"\n")


@app.command(epilog="Example: `shipper dev put data/logs/*.log s3a://logs/2026-11-01/06/`")
def put(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", exists=True, dir_okay=False, help="Files on this machine."),
    ],
    to: Annotated[
        str,
        typer.Argument(
            metavar="s3a://BUCKET/PREFIX/", help="Where to; the bucket is made if it is not there."
        ),
    ],
) -> None:
    """Put files into the S3 server of `shipper dev up`, each under its name."""
    bucket, _, prefix = to.removeprefix("s3a://").partition("/")
    if not to.startswith("s3a://") or not bucket or (prefix and not prefix.endswith("/")):
        raise typer.BadParameter(
            f"the last argument is s3a://BUCKET/ or s3a://BUCKET/PREFIX/, and not {to!r}"
        )
    client = S3Client(_address(ServerName.S3), ACCESS_KEY, SECRET_KEY)
    try:
        client.make_bucket(bucket)
        for file in files:
            client.put(bucket, f"{prefix}{file.name}", file.read_bytes())
    except Refused as error:
        raise UsageError(f"the S3 server refuses to put files into {to}: {error}") from error
    _print(
        f"{len(files)} {'file is' if len(files) == 1 else 'files are'} in s3a://{bucket}/{prefix}"
    )


def _kafka() -> ClusterClient:
    """Return a client of the Kafka of `shipper dev up`. Raises UsageError."""
    from shipper.config.cluster import Cluster
    from shipper.kafka.client import ClusterClient

    where = {"cluster": "dev", "bootstrap": _address(ServerName.KAFKA)}
    return ClusterClient(Cluster.model_validate(where))


def _address(name: ServerName) -> str:
    """Return where clients connect to the server. Raises UsageError."""
    server = load(dev_home(), name)
    if server is None or not server.running:
        raise UsageError(
            f"{name.capitalize()} is not up here; start it with `shipper dev up {name}`"
        )
    return next(iter(server.addresses.values()))


def _addresses(server: ServerState) -> str:
    return ", ".join(address for name, address in server.addresses.items() if name != "config")


def _pids(server: ServerState) -> str:
    return "pid " + ", ".join(str(process.pid) for process in server.processes)


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _say(line: str) -> None:
    """Progress: on stderr, so that stdout holds the result alone."""
    Console(stderr=True).print(line, style="dim", markup=False, highlight=False, soft_wrap=True)


def _print(line: str) -> None:
    Console().print(line, markup=False, highlight=False, soft_wrap=True)


def _print_json(found: list[ServerState]) -> None:
    document = {
        server.name: {
            **server.addresses,
            "pids": [process.pid for process in server.processes],
            "directory": str(server.directory),
        }
        for server in found
    }
    typer.echo(json.dumps(document, indent=2))

"""A real PostgreSQL on loopback, from the programs of the system's package. Airflow's database, where SQLite would be too small."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from shipper.processes import ProcessId
from shipper_tools.dev.errors import ServerDied
from shipper_tools.dev.ports import LOOPBACK, free_port
from shipper_tools.dev.process import ServerProcess, spawn

READY_WITHIN_SECONDS = 60.0
STOP_WITHIN_SECONDS = 20.0
USER = "airflow"
#: Where packages put what they do not put on the path, below /usr: Debian's, and those of postgresql.org for Red Hat.
_FOLDERS = ("lib/postgresql/*/bin", "pgsql-*/bin")
_DRIVERS = ("psycopg2", "asyncpg")
#: A server for experiments: a machine that loses its power may take the data along.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "unix_socket_directories": "",
    "max_connections": "100",
}


def why_no_postgres() -> str | None:
    """What is missing, in words that a sentence can go on with; None if a server can be started, and Airflow can talk to it."""
    if _programs() is None:
        return "no PostgreSQL is installed (Debian: `apt-get install postgresql`)"
    if missing := [name for name in _DRIVERS if find_spec(name) is None]:
        return f"{' and '.join(missing)} are not installed (`uv sync --all-extras`)"
    if os.geteuid() == 0:
        try:
            subprocess.run([*_as_somebody(), "true"], cwd="/", capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError, ServerDied):
            return "PostgreSQL does not run as root, and `setpriv` cannot run it as somebody else here"
    return None


def _programs() -> Path | None:
    """The folder of ``initdb`` and ``postgres``, of the newest version."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted((each for pattern in _FOLDERS for each in Path("/usr").glob(pattern)), key=_version, reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def _version(folder: Path) -> float:
    number = folder.parent.name.rpartition("-")[2]
    return float(number) if number.replace(".", "", 1).isdigit() else 0.0


class PostgresServer:
    """A database that lives in ``directory``, behind a password, and is there again after the next start.

    ::

        with PostgresServer(tmp_path / "postgres", die_with_parent=True) as postgres:
            Airflow(home, dags, {}, database=postgres.url)

    Args:
        directory: made if it is not there; one server at a time may use it.
        die_with_parent: as of :class:`~shipper_tools.dev.kafka.KafkaServer`.
    """

    def __init__(self, directory: Path, *, die_with_parent: bool = False) -> None:
        self.directory = directory.absolute()
        self.port = free_port()
        self._die_with_parent = die_with_parent
        self._process: ServerProcess | None = None

    @property
    def url(self) -> str:
        """For SQLAlchemy. Holds the password. Raises ServerDied before the first start."""
        if not self._password_file.exists():
            raise ServerDied(f"The PostgreSQL in {self.directory} was never started.")
        password = self._password_file.read_text().strip()
        return f"postgresql+psycopg2://{USER}:{password}@{LOOPBACK}:{self.port}/postgres"

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        return (self._process.id,) if self._process is not None else ()

    @property
    def log(self) -> Path:
        return self.directory / "postgres.log"

    def start(self) -> None:
        """Some two seconds the first time, one later on.

        Raises:
            ServerDied: it cannot be started; the message ends with what it said.
        """
        programs = _programs()
        if programs is None:
            raise ServerDied(f"PostgreSQL cannot be started: {why_no_postgres()}.")
        self.directory.mkdir(parents=True, exist_ok=True)
        if not (self._data / "PG_VERSION").exists():
            self._make(programs)
        settings = [argument for name, value in _SETTINGS.items() for argument in ("-c", f"{name}={value}")]
        command = [str(programs / "postgres"), "-D", str(self._data), "-h", LOOPBACK, "-p", str(self.port), *settings]
        argv = [*_as_somebody(), *command]
        self._process = spawn(argv, cwd=self.directory, output=self.log, die_with_parent=self._die_with_parent)
        try:
            self._wait_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Does nothing if it does not run."""
        if self._process is not None:
            self._process.stop(STOP_WITHIN_SECONDS)
            self._process = None

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _password_file(self) -> Path:
        return self.directory / "password"

    def _make(self, programs: Path) -> None:
        shutil.rmtree(self._data, ignore_errors=True)  # half of one, of a start that was interrupted
        self._data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            user = _somebody()
            os.chown(self._data, user.pw_uid, user.pw_gid)
        self._password_file.unlink(missing_ok=True)
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(secrets.token_urlsafe(24) + "\n")
        options = [
            "--pgdata",
            str(self._data),
            "--username",
            USER,
            "--pwfile",
            str(self._password_file),
            "--auth",
            "scram-sha-256",
        ]
        command = [str(programs / "initdb"), *options, "--encoding", "UTF8", "--locale", "C", "--no-sync"]
        done = subprocess.run([*_as_somebody(), *command], cwd="/", capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ServerDied(
                f"PostgreSQL's database cannot be made in {self._data}: {(done.stderr or done.stdout).strip()[-1000:]}"
            )

    def _wait_ready(self) -> None:
        """A connection with the password, since that is what Airflow needs."""
        import psycopg2

        assert self._process is not None
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        dsn = self.url.replace("+psycopg2", "")
        while True:
            try:
                psycopg2.connect(dsn, connect_timeout=2).close()
                return
            except psycopg2.OperationalError as error:
                why = str(error).strip()
            if self._process.exit_code() is not None or time.monotonic() > deadline:
                said = self.log.read_text(errors="replace").splitlines()[-8:]
                raise ServerDied("\n".join([f"PostgreSQL did not start: {why}", *said, f"(all of it: {self.log})"]))
            time.sleep(0.1)


def _as_somebody() -> list[str]:
    """PostgreSQL refuses to run as root. As root it is run as somebody else, with root's right to pass through folders: those above its own may
    be root's alone."""
    if os.geteuid() != 0:
        return []
    user, passes = _somebody(), "+dac_override"
    who = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return ["setpriv", *who, f"--inh-caps={passes}", f"--ambient-caps={passes}", "--"]


def _somebody() -> pwd.struct_passwd:
    """The account that the package makes, else the one that owns nothing."""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise ServerDied("PostgreSQL does not run as root, and there is neither an account `postgres` nor `nobody`.")

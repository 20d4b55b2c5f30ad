"""A real PostgreSQL on loopback, from the programs of the system's package. Airflow's database,
where SQLite would be too small."""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from shipper_tools.dev.errors import ServerDied
from shipper_tools.dev.ports import LOOPBACK
from shipper_tools.dev.process import write_for_us_alone
from shipper_tools.dev.server import Server

USER = "airflow"
#: Where packages put what they do not put on the path, below /usr: Debian's, and those of
#: postgresql.org for Red Hat.
_FOLDERS = ("lib/postgresql/*/bin", "pgsql-*/bin")
_DRIVERS = ("psycopg2", "asyncpg")
#: A server for experiments: a machine that loses its power may take the data along.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "unix_socket_directories": "",
    "max_connections": "100",
    # A scheduler that is killed in a transaction leaves the workers that it has forked, and they
    # its connection: the runs that it had locked would wait for ever.
    "idle_in_transaction_session_timeout": "2min",
}


def why_no_postgres() -> str | None:
    """What is missing, in words that a sentence can go on with; None if a server can be started,
    and Airflow can talk to it."""
    if _programs() is None:
        return "no PostgreSQL is installed (Debian: `apt-get install postgresql`)"
    if missing := [name for name in _DRIVERS if find_spec(name) is None]:
        return f"{' and '.join(missing)} are not installed (`uv sync --all-extras`)"
    if os.geteuid() == 0:
        try:
            subprocess.run([*_as_somebody(), "true"], cwd="/", capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError, ServerDied):
            return (
                "PostgreSQL does not run as root, and `setpriv` cannot run it as somebody else here"
            )
    return None


def _programs() -> Path | None:
    """The folder of ``initdb`` and ``postgres``, of the newest version."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = [
        each
        for pattern in _FOLDERS
        for each in Path("/usr").glob(pattern)
        if (each / "initdb").exists()
    ]
    return max(folders, key=lambda each: [*map(int, re.findall(r"\d+", str(each)))], default=None)


class PostgresServer(Server):
    """A database behind a password, up after some two seconds the first time, one later on.

    ::

        with PostgresServer(tmp_path / "postgres", die_with_parent=True) as postgres:
            Airflow(home, {}, database=postgres.url)
    """

    title = "PostgreSQL"
    silent_seconds = 60.0

    @property
    def url(self) -> str:
        """Address of the database for SQLAlchemy, with the password."""
        return f"postgresql+psycopg2://{USER}:{self._password.read_text().strip()}@{self.address}/postgres"

    @property
    def addresses(self) -> Mapping[str, str]:
        """Without the password."""
        return {"postgres": self.address}

    def _launch(self) -> None:
        programs = _programs()
        if programs is None:
            raise ServerDied(f"PostgreSQL cannot be started: {why_no_postgres()}.")
        self._folders()
        if not (self._data / "PG_VERSION").exists():
            self._make(programs)
        command = [str(programs / "postgres"), "-D", str(self._data)]
        command += ["-h", LOOPBACK, "-p", str(self.port)]
        for name, value in _SETTINGS.items():
            command += ["-c", f"{name}={value}"]
        self._spawn("postgres", [*_as_somebody(), *command])

    def _answers(self) -> bool:
        """True if a connection with the password is made, since that is what Airflow needs."""
        import psycopg2

        try:
            psycopg2.connect(self.url.replace("+psycopg2", ""), connect_timeout=2).close()
        except psycopg2.OperationalError:
            return False
        return True

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _password(self) -> Path:
        return self.directory / "password"

    def _make(self, programs: Path) -> None:
        shutil.rmtree(self._data, ignore_errors=True)  # half of one, of an interrupted start
        self._data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            user = _somebody()
            os.chown(self._data, user.pw_uid, user.pw_gid)
        write_for_us_alone(self._password, secrets.token_urlsafe(24) + "\n")
        options = (
            f"--username {USER} --auth scram-sha-256 --encoding UTF8 --locale C --no-sync".split()
        )
        places = ["--pgdata", str(self._data), "--pwfile", str(self._password)]
        self._make_data([*_as_somebody(), str(programs / "initdb"), *places, *options])


def _as_somebody() -> list[str]:
    """PostgreSQL refuses to run as root. As root it is run as somebody else, with root's right to
    pass through folders: those above its own may be root's alone."""
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
    raise ServerDied(
        "PostgreSQL does not run as root, and there is neither an account `postgres` nor `nobody`."
    )

"""Airflow standalone on loopback (LocalExecutor; SQLite, or the database that it is given), driven
from outside as its users do: by CLI and REST API.

A process of its own, because this library does not import Airflow. For demonstrations, development
and tests only: whoever reaches the port is its administrator.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from shipper.cli.dags import write_dag_files
from shipper.errors import UsageError
from shipper.jars import Say
from shipper.processes import ProcessId
from shipper_tools.dev import http
from shipper_tools.dev.errors import DevServerError
from shipper_tools.dev.ports import LOOPBACK, free_port
from shipper_tools.dev.postgres import PostgresServer, why_no_postgres
from shipper_tools.dev.process import write_for_us_alone
from shipper_tools.dev.server import Server, T

#: Between two looks at the pipelines' files; and what is stored of a DAG follows its file at once,
#: not half a minute later.
_PROMPT = {
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "5",
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "1",
}
#: After how long a file that was saved is a DAG, or the DAG another: that, and the time to read it,
#: on a small machine.
SAVED_TO_DAG_SECONDS = 15


class AirflowError(DevServerError):
    """Airflow refused a request, or a command failed."""


class AirflowSilent(AirflowError):
    """Airflow did not answer a request in time."""

    retriable = True


class Airflow(Server):
    """One Airflow whose database, logs and settings live in its folder; up after some 30 seconds on
    a small machine.

    Args:
        home: ``AIRFLOW_HOME``.
        environment: further environment variables, such as ``SHIPPER_CONFIG``; its tasks see them.
        port: None for any that is free.
        database: SQLAlchemy's URL of an empty one, or of what an earlier start left there. None:
            SQLite, below ``home``.
        python: of the environment that Airflow is installed in; None for this one.
    """

    title = "Airflow"
    silent_seconds = 150.0
    #: Its API server takes some five. Its scheduler never ends by itself: it waits for idle
    #: workers, who wait for their queue (3.3, LocalExecutor).
    stop_within_seconds = 8.0
    poll_seconds = 0.5

    def __init__(
        self,
        home: Path,
        environment: Mapping[str, str],
        *,
        port: int | None = None,
        database: str | None = None,
        python: Path | None = None,
        say: Say = lambda line: None,
    ) -> None:
        super().__init__(home, port, say=say)
        self.database = database
        self._given = environment
        self._log_ports = free_port(), free_port()
        self._bin = (python or Path(sys.executable)).parent
        self._executable = str(self._bin / "airflow")
        self._token = ""

    @property
    def home(self) -> Path:
        """``AIRFLOW_HOME``."""
        return self.directory

    @property
    def dags(self) -> Path:
        """Its folder of DAGs. It has the files of `shipper dags install`."""
        return self.home / "dags"

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{self.address}"

    @property
    def addresses(self) -> Mapping[str, str]:
        return {"airflow": self.url}

    @property
    def environment(self) -> dict[str, str]:
        """Of its processes. `standalone` starts its parts by the name of `airflow`; loopback must
        not go through a proxy."""
        path = os.pathsep.join([str(self._bin), os.environ.get("PATH", "")])
        paths = {
            "AIRFLOW_HOME": str(self.home),
            "PATH": path,
            "NO_PROXY": LOOPBACK,
            "no_proxy": LOOPBACK,
        }
        return {
            **os.environ,
            **paths,
            **{f"AIRFLOW__{name}": value for name, value in self._settings().items()},
            **self._given,
        }

    def start_part(self, name: str) -> None:
        """Start ``scheduler`` or another of its parts, in place of one that died: `standalone`
        starts none anew, as an init system would."""
        self._spawn(name, [self._executable, name], self.environment)

    def cli(self, *arguments: str) -> str:
        """Return what ``airflow ARGUMENTS`` prints. Takes seconds: it imports Airflow. Raises
        AirflowError."""
        done = subprocess.run(
            [self._executable, *arguments],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise AirflowError(
                f"`airflow {' '.join(arguments)}` failed: "
                f"{(done.stderr or done.stdout).strip()[-2000:]}"
            )
        return done.stdout

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer to a request to ``/api/v2/PATH``. A question that a busy Airflow does
        not answer in time is put again, as long as its logs show progress. Raises AirflowError,
        ServerDied."""
        if method != "GET":
            return self._request(method, path, body)
        (answer,) = self.wait(f"answer GET {path}", lambda: (self._request("GET", path, None),))
        return answer

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        # Nobody has to log in, but each request needs a token.
        if not self._token:
            self._token = http.json_at(f"{self.url}/auth/token", 30).get("access_token", "")
        if not self._token:
            raise AirflowSilent(f"Airflow gives no token for {method} {path}.")
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        data = None if body is None else json.dumps(body).encode()
        try:
            # Only a question can be put again.
            patience = 30 if method == "GET" else 300
            answer = http.request(method, f"{self.url}/api/v2/{path}", data, headers, patience)
            return json.loads(answer or b"null")
        except http.Refused as error:
            raise AirflowError(f"Airflow refused {method} {path}: {error}") from error
        except OSError as error:
            raise AirflowSilent(f"Airflow does not answer {method} {path}: {error}") from error

    def wait(self, what: str, look: Callable[[], T | None]) -> T:
        """Wait as any server does. A request that is not answered in time is no reason to stop."""

        def patiently() -> T | None:
            try:
                return look()
            except AirflowSilent:
                return None

        return super().wait(what, patiently)

    def _launch(self) -> None:
        """Start the process that starts the others. Raises UsageError if Airflow is not
        installed."""
        if not Path(self._executable).exists():
            raise UsageError(
                f"There is no Airflow in {self._bin}. Install the wheel of shipper with its extra "
                "`airflow`, or run `make setup` in a clone."
            )
        self._folders()
        self._write_settings()
        config = self._given.get("SHIPPER_CONFIG")
        write_dag_files(self.dags, Path(config or self.home / "config"))
        self._spawn("standalone", [self._executable, "standalone"], self.environment)

    def _answers(self) -> bool:
        """True if its scheduler, DAG processor and API answer."""
        health = http.json_at(f"{self.url}/api/v2/monitor/health", 30)
        return all(
            health.get(part, {}).get("status") == "healthy"
            for part in ("metadatabase", "scheduler", "dag_processor")
        )

    def _settings(self) -> dict[str, str]:
        """Return ``SECTION__OPTION`` → value."""
        return {
            "CORE__DAGS_FOLDER": str(self.dags.absolute()),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "4",
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "DATABASE__SQL_ALCHEMY_CONN": self.database or f"sqlite:///{self.home}/airflow.db",
            "API__HOST": LOOPBACK,
            "API__PORT": str(self.port),
            "API__BASE_URL": self.url,
            "API__WORKERS": "1",
            "LOGGING__WORKER_LOG_SERVER_PORT": str(self._log_ports[0]),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(self._log_ports[1]),
            "DAG_PROCESSOR__REFRESH_INTERVAL": "10",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "10",
            # The first answer to a task took 95 s on a busy machine. By default a task waits five
            # times for 5 s, and then its try has failed.
            "WORKERS__EXECUTION_API_TIMEOUT": "60",
            "USAGE_DATA_COLLECTION__ENABLED": "False",
            **_keys(self.home / "keys.json"),
        }

    def _write_settings(self) -> None:
        """For people's own commands, `AIRFLOW_HOME=… airflow …`; the processes here have the same
        by their environment, which comes first."""
        sections: dict[str, list[str]] = {}
        for name, value in self._settings().items():
            section, _, option = name.lower().partition("__")
            sections.setdefault(section, []).append(f"{option} = {value.replace('%', '%%')}")
        text = "\n\n".join(
            "\n".join([f"[{section}]", *options]) for section, options in sections.items()
        )
        write_for_us_alone(self.home / "airflow.cfg", f"{text}\n")


class AirflowServer(Airflow):
    """The Airflow of ``shipper dev up airflow``, with the pipelines of a configuration. Its
    database is a PostgreSQL of its own where one can be started, else SQLite. Runs,
    connections and variables are there again after the next start.

    Args:
        directory: `AIRFLOW_HOME`; the database is below it.
        port: of its page. None takes a free one.
        config: the configuration whose pipelines become DAGs.
        say: gets a line for people where there is no PostgreSQL.
    """

    def __init__(self, directory: Path, port: int | None, config: Path, say: Say) -> None:
        self._config = config.absolute()
        super().__init__(
            directory, {"SHIPPER_CONFIG": str(self._config), **_PROMPT}, port=port, say=say
        )
        self._postgres: PostgresServer | None = None

    @property
    def addresses(self) -> Mapping[str, str]:
        """The page, and whose pipelines are in it."""
        return {"airflow": self.url, "config": str(self._config)}

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        """The database's, if it is a server, the one that leads Airflow's, and its parts as they
        are now: it starts none anew, and does not end with one."""
        leading, parts = super().processes, list[ProcessId]()
        for leader in leading:
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                parts += [ProcessId.of(one.pid) for one in psutil.Process(leader.pid).children()]
        return (*(self._postgres.processes if self._postgres else ()), *leading, *parts)

    def stop(self) -> None:
        super().stop()
        if self._postgres is not None:
            self._postgres.stop()

    def _launch(self) -> None:
        """Start the database, and then Airflow.

        Raises:
            UsageError: there is no Airflow, or no such configuration.
            ServerDied: the database did not start.
        """
        if not self._config.is_dir():
            raise UsageError(
                f"There is no configuration at {self._config}; `--config DIR` names another."
            )
        self.database = self._database()
        super()._launch()

    def _database(self) -> str | None:
        if why := why_no_postgres():
            self._say(
                f"Airflow's database is SQLite: {why}. A backfill may find it locked: by the REST "
                "API, ask again after a 503."
            )
            return None
        self._postgres = PostgresServer(self.directory / "postgres")
        self._postgres.start()
        return self._postgres.url


def _keys(file: Path) -> dict[str, str]:
    """Made once: what was encrypted with a key, such as the password of a connection, can be read
    with that key alone."""
    if not file.exists():
        made = {
            "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "API__SECRET_KEY": secrets.token_hex(16),
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        write_for_us_alone(file, json.dumps(made))
    keys: dict[str, str] = json.loads(file.read_text())
    return keys

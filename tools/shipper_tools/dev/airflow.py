"""Airflow standalone on loopback (LocalExecutor; SQLite, or the database that it is given), driven from outside as its users do: by CLI and
REST API.

A process of its own, because this library does not import Airflow. For demonstrations, development and tests only: whoever reaches the port is
its administrator.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from shipper.errors import UsageError
from shipper.processes import ProcessId
from shipper_tools.dev.errors import DevServerError, PortTaken
from shipper_tools.dev.ports import LOOPBACK, free_port, why_unusable
from shipper_tools.dev.process import new_log, stop_family

READY_WITHIN_SECONDS = 150.0
#: Its API server takes some five. Its scheduler never ends by itself: it waits for idle workers, who wait for their queue (3.3, LocalExecutor).
STOP_WITHIN_SECONDS = 8.0


class AirflowError(DevServerError):
    """Airflow did not start, or refused a request."""


class Airflow:
    """One Airflow whose database, logs and settings live in ``home``.

    Args:
        home: ``AIRFLOW_HOME``.
        dags: the folder that holds ``shipper_dags.py``.
        environment: further environment variables, such as ``SHIPPER_CONFIG``; its tasks see them too.
        port: None for any that is free.
        database: SQLAlchemy's URL of an empty one, or of what an earlier start left there. None: SQLite, below ``home``.
    """

    def __init__(
        self, home: Path, dags: Path, environment: Mapping[str, str], *, port: int | None = None, database: str | None = None
    ) -> None:
        self.home = home.absolute()
        self.port = port or free_port()
        self.url = f"http://{LOOPBACK}:{self.port}"
        self.log = self.home / "standalone.log"
        self._executable = Path(sys.executable).with_name("airflow")
        self._settings = _settings(self.home, dags, self.port, database or f"sqlite:///{self.home}/airflow.db")
        self.environment = {**os.environ, **_paths(self.home), **_variables(self._settings), **environment}
        """Of its processes."""
        self._process: subprocess.Popen[bytes] | None = None
        self._id: ProcessId | None = None
        self._parts: list[subprocess.Popen[bytes]] = []
        self._token: str | None = None

    @property
    def processes(self) -> tuple[ProcessId, ...]:
        """The one that starts the others, and leads their session."""
        return (self._id,) if self._id is not None else ()

    def launch(self) -> None:
        """Starts the processes without waiting for them. Raises UsageError if Airflow is not installed, PortTaken."""
        if not self._executable.exists():
            raise UsageError(f"There is no Airflow beside {sys.executable}; install it with `uv sync --all-extras`.")
        if reason := why_unusable(self.port):
            raise PortTaken(f"Airflow cannot listen: port {self.port} on {LOOPBACK} {reason}.")
        self.home.mkdir(parents=True, exist_ok=True)
        self._write_settings()
        self._process = self._start("standalone", self.log)
        self._id = ProcessId.of(self._process.pid)

    def start_part(self, name: str) -> None:
        """``scheduler`` or another of its parts, in place of one that died: `standalone` starts none anew, as an init system would."""
        self._parts.append(self._start(name, self.home / f"{name}.log"))

    def _start(self, command: str, output: Path) -> subprocess.Popen[bytes]:
        with new_log(output) as log:
            return subprocess.Popen(
                [self._executable, command],
                env=self.environment,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def ready(self) -> bool:
        """Whether its scheduler, DAG processor and API answer. Raises AirflowError if it has ended."""
        if self._process is None or self._process.poll() is not None:
            raise AirflowError(f"Airflow has ended. {self.last_words()}")
        with contextlib.suppress(AirflowError):
            health = self._request("GET", "/api/v2/monitor/health", authorized=False)
            return all(health[part]["status"] == "healthy" for part in ("metadatabase", "scheduler", "dag_processor"))
        return False

    def wait_ready(self, within_seconds: float = READY_WITHIN_SECONDS) -> None:
        """Some 30 seconds on a small machine. Raises AirflowError."""
        deadline = time.monotonic() + within_seconds
        while not self.ready():
            if time.monotonic() > deadline:
                raise AirflowError(f"Airflow was not ready within {within_seconds:.0f} seconds. {self.last_words()}")
            time.sleep(0.5)

    def stop(self) -> None:
        """Ends all of it, and what its tasks have started."""
        if self._process is None or self._id is None:
            return
        stop_family(self._id, STOP_WITHIN_SECONDS)
        self._process.wait()
        for part in self._parts:
            stop_family(ProcessId.of(part.pid), STOP_WITHIN_SECONDS)
            part.wait()
        self._process = self._id = None
        self._parts = []

    def __enter__(self) -> Airflow:
        try:
            self.launch()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def cli(self, *arguments: str) -> str:
        """What ``airflow ARGUMENTS`` prints. Takes seconds: it imports Airflow. Raises AirflowError."""
        done = subprocess.run(
            [self._executable, *arguments], env=self.environment, cwd=self.home, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise AirflowError(f"`airflow {' '.join(arguments)}` failed: {(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """A request to ``/api/v2/PATH``; returns what it answers. Raises AirflowError."""
        return self._request(method, f"/api/v2/{path}", body)

    def last_words(self, lines: int = 15) -> str:
        said = self.log.read_text(errors="replace").splitlines()[-lines:] if self.log.exists() else []
        return "\n".join(["Its last lines:", *said, f"(all of them: {self.log})"])

    def _write_settings(self) -> None:
        """For people's own commands, `AIRFLOW_HOME=… airflow …`; the processes here have the same by their environment, which comes first."""
        sections: dict[str, list[str]] = {}
        for name, value in self._settings.items():
            section, _, option = name.lower().partition("__")
            sections.setdefault(section, []).append(f"{option} = {value.replace('%', '%%')}")
        text = "\n\n".join("\n".join([f"[{section}]", *options]) for section, options in sections.items())
        _write_for_us_alone(self.home / "airflow.cfg", f"{text}\n")

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, authorized: bool = True) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if authorized:
            headers["Authorization"] = f"Bearer {self._bearer()}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            with _DIRECT.open(request, timeout=30) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:1000]
            raise AirflowError(f"Airflow refused {method} {path}: {error.code} {said}") from error
        except OSError as error:
            raise AirflowError(f"Airflow does not answer {method} {path}: {error}") from error

    def _bearer(self) -> str:
        if self._token is None:
            self._token = str(self._request("GET", "/auth/token", authorized=False)["access_token"])
        return self._token


#: A proxy of the environment (http_proxy) has no business with loopback.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _settings(home: Path, dags: Path, port: int, database: str) -> dict[str, str]:
    """``SECTION__OPTION`` → value."""
    return {
        "CORE__DAGS_FOLDER": str(dags.absolute()),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "4",
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "DATABASE__SQL_ALCHEMY_CONN": database,
        "API__HOST": LOOPBACK,
        "API__PORT": str(port),
        "API__BASE_URL": f"http://{LOOPBACK}:{port}",
        "API__WORKERS": "1",
        "LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "10",
        "USAGE_DATA_COLLECTION__ENABLED": "False",
        **_keys(home / "keys.json"),
    }


def _keys(file: Path) -> dict[str, str]:
    """Made once: what was encrypted with a key, such as the password of a connection, can be read with that key alone."""
    if not file.exists():
        made = {
            "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "API__SECRET_KEY": secrets.token_hex(16),
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        _write_for_us_alone(file, json.dumps(made))
    keys: dict[str, str] = json.loads(file.read_text())
    return keys


def _write_for_us_alone(file: Path, text: str) -> None:
    partial = file.with_name(f"{file.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_text(text)
    partial.replace(file)


def _variables(settings: Mapping[str, str]) -> dict[str, str]:
    return {f"AIRFLOW__{name}": value for name, value in settings.items()}


def _paths(home: Path) -> dict[str, str]:
    """`standalone` starts its parts by the name of `airflow`; loopback must not go through a proxy."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {"AIRFLOW_HOME": str(home), "PATH": path, "NO_PROXY": LOOPBACK, "no_proxy": LOOPBACK}

"""Airflow standalone on loopback (SQLite, LocalExecutor), driven from outside as its users do: by CLI and REST API.

A process of its own, because this library does not import Airflow. For demonstrations and tests only: whoever reaches
the port is its administrator.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from shipper.errors import ShipperError, UsageError
from shipper_tools.dev.ports import LOOPBACK, free_port

READY_WITHIN_SECONDS = 150.0
STOP_WITHIN_SECONDS = 20.0


class AirflowError(ShipperError):
    """Airflow did not start, or refused a request."""


class Airflow:
    """One Airflow whose database, logs and settings live in ``home``.

    Args:
        home: ``AIRFLOW_HOME``.
        dags: the folder that holds ``shipper_dags.py``.
        environment: further environment variables, such as ``SHIPPER_CONFIG``; its tasks see them too.
    """

    def __init__(self, home: Path, dags: Path, environment: Mapping[str, str]) -> None:
        self.home = home.absolute()
        self.url = f"http://{LOOPBACK}:{free_port()}"
        self.log = self.home / "standalone.log"
        self._executable = Path(sys.executable).with_name("airflow")
        self.environment = {**os.environ, **_settings(self.home, dags, self.url), **environment}
        """Of its processes."""
        self._process: subprocess.Popen[bytes] | None = None
        self._token: str | None = None

    def launch(self) -> None:
        """Starts the processes without waiting for them. Raises UsageError if Airflow is not installed."""
        if not self._executable.exists():
            raise UsageError(f"There is no Airflow beside {sys.executable}; install it with `uv sync --all-extras`.")
        self.home.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [self._executable, "standalone"],
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
        """Ends all of it: TERM to the group, KILL after a while, and then what its tasks started in groups of their own."""
        if self._process is None:
            return
        family = []
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(self._process.pid).children(recursive=True)
        for signum, patience in ((signal.SIGTERM, STOP_WITHIN_SECONDS), (signal.SIGKILL, 5.0)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signum)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        for process in psutil.wait_procs(family, timeout=5.0)[1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process = None

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


def _settings(home: Path, dags: Path, url: str) -> dict[str, str]:
    ours = {
        "CORE__DAGS_FOLDER": str(dags.absolute()),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "4",
        "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "API__HOST": LOOPBACK,
        "API__PORT": url.rpartition(":")[2],
        "API__BASE_URL": url,
        "API__WORKERS": "1",
        "API__SECRET_KEY": secrets.token_hex(16),
        "API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "10",
        "USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    # `standalone` starts its parts by the name of `airflow`; loopback must not go through a proxy.
    others = {"AIRFLOW_HOME": str(home), "PATH": path, "NO_PROXY": LOOPBACK, "no_proxy": LOOPBACK}
    return others | {f"AIRFLOW__{name}": value for name, value in ours.items()}

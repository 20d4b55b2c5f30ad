"""The Airflow of ``shipper dev up airflow``: standalone, with the pipelines of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shipper.errors import UsageError
from shipper.jars import Say
from shipper.processes import ProcessId
from shipper_tools.dev.airflow import Airflow
from shipper_tools.dev.postgres import PostgresServer, why_no_postgres

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


class AirflowServer(Airflow):
    """Its database is a PostgreSQL of its own where one can be started, else SQLite. Runs,
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
        """The database's, if it is a server, and the one that leads Airflow's."""
        return (*(self._postgres.processes if self._postgres else ()), *super().processes)

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

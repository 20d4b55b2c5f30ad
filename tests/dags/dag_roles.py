"""An auth manager that tests configure: Airflow's simple one with rights DAG by DAG, as others have
them."""

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager


class DagByDag(SimpleAuthManager):
    """`web_only` sees the DAG web alone, and `no_logs` no task's log; all others what their role
    sees."""

    def is_authorized_dag(self, *, user, access_entity=None, details=None, **options) -> bool:
        if user.username == "web_only" and (details is None or details.id != "web"):
            return False
        if user.username == "no_logs" and access_entity == DagAccessEntity.TASK_LOGS:
            return False
        return super().is_authorized_dag(
            user=user, access_entity=access_entity, details=details, **options
        )

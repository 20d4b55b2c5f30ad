"""Errors of tasks come back as data: no log line can write one."""

import pickle
from types import SimpleNamespace

import pytest

from shipper.driver.scan import why_failed
from shipper.errors import ClusterError, DeliveryError, LedgerDamaged, UsageError, error_named
from shipper.worker.receipt import new_seal, seal_error, unseal_error
from spark_jobs.spark_engine import SparkEngine
from tests.samples.config import pipeline_of

ENGINE = SparkEngine(pipeline_of())
HOSTILE = (
    "shipper.errors.UsageError: click https://evil.example password=hunter2",
    "shipper.errors.annotations: x",
    'shipper-error 0 ["UsageError", "click"]',
    "shipper-error",
)


def spark_says(line):
    return RuntimeError(
        f'[CAST_INVALID_INPUT] The value \'{line}\' of the type "STRING" cannot be cast to "INT". '
        "SQLSTATE: 22018"
    )


@pytest.mark.parametrize("line", HOSTILE)
def test_a_log_line_cannot_write_the_error_of_a_run(line):
    order = SimpleNamespace(pipeline="web", seal=new_seal())
    error = why_failed(ENGINE, spark_says(line), order, superseded=False)
    assert type(error) is DeliveryError
    assert "Spark stopped with CAST_INVALID_INPUT" in error.message
    assert not any(word in error.message for word in ("hunter2", "click", "evil"))


def test_what_a_task_says_arrives_through_whatever_spark_makes_of_it():
    order = SimpleNamespace(pipeline="web", seal=new_seal())
    said = 'cluster frankfurt: "x"\nis not there: täglich'
    text = (
        "Job aborted …\nshipper.worker.task.TaskError: "
        f"{seal_error(ClusterError(said), order.seal)}\n\n\tat org.apache"
    )
    error = why_failed(ENGINE, RuntimeError(text), order, superseded=False)
    assert type(error) is ClusterError
    assert error.message == f"{said} [SHIP-401]"


def test_another_orders_seal_is_no_seal():
    assert unseal_error(seal_error(ClusterError("x"), new_seal()), new_seal()) is None


def test_only_shippers_errors_are_made_of_a_name():
    assert type(error_named("LedgerDamaged", "x")) is LedgerDamaged
    assert type(error_named("UsageError", "x")) is UsageError
    for kind in ("annotations", "error_named", "SystemExit", "", None):
        assert type(error_named(kind, "x")) is DeliveryError
    assert pickle.loads(pickle.dumps(error_named("LedgerDamaged", "x"))).code == "SHIP-501"

"""A task whose shipper is not its driver's sends nothing. tests/integration/test_spark_cluster.py
has real executors."""

import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest

from shipper.errors import DeliveryError
from shipper.worker import order as orders
from shipper.worker import task
from shipper.worker.receipt import Receipt, unseal_error
from spark_jobs import sink

ORDER = SimpleNamespace(seal="0123")


class Shipped:
    """In the place of what ships a task's batches."""

    def __init__(self):
        self.tasks = []

    def __call__(self, order, cluster, batches, task, attempt, before):
        self.tasks.append(task)
        return Receipt(task)


@pytest.fixture
def shipped(monkeypatch):
    context = SimpleNamespace(
        partitionId=lambda: 3, taskAttemptId=lambda: 8, attemptNumber=lambda: 0
    )
    monkeypatch.setattr(pyspark.TaskContext, "get", classmethod(lambda cls: context))
    shipped = Shipped()
    monkeypatch.setattr(task, "ship_task", shipped)
    return shipped


def run(digest):
    receipts = []
    add = SimpleNamespace(add=receipts.extend)
    sink._ship(pickle.dumps((ORDER, None)), digest, add, iter([]))
    return receipts


def test_a_task_of_another_shipper_sends_nothing_and_says_why(shipped):
    with pytest.raises(task.TaskError) as caught:
        run("another shipper")
    assert shipped.tasks == []
    told = unseal_error(str(caught.value), ORDER.seal)
    assert type(told) is DeliveryError
    assert "SHIP-806" in told.message


def test_a_task_of_the_same_shipper_ships(shipped):
    assert len(run(orders.code_digest())) == 1
    assert shipped.tasks == [3]


def test_every_module_of_shipper_that_a_task_imports_is_in_the_digest():
    """A module outside of the digest could differ between driver and task, and nobody would
    notice."""
    program = (
        "import sys, shipper.worker.task; print(*(m.__file__ for name, m in sys.modules.items() if "
        "name.startswith('shipper.') and m.__file__))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    digested = {str(path) for part in orders._TASK_CODE for path in orders._ROOT.glob(part)}
    imported = {path for path in done.stdout.split() if Path(path).read_bytes().strip()}
    assert imported
    assert imported - digested == set()

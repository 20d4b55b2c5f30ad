"""Notifiers that pipelines name: their classes, and the faults of an entry of `notify`.

As a program (``python -m shipper_airflow.notifiers``) it answers `shipper validate`, which does not
import Airflow itself: entries on stdin, faults on stdout, both JSON.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier


def notifier_class(name: str) -> type[BaseNotifier]:
    """Import the class ``name``. Raises TypeError if it is no notifier, and whatever the import
    raises."""
    module, _, class_name = name.rpartition(".")
    found = getattr(import_module(module), class_name)
    if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
        raise TypeError("is no notifier: a subclass of airflow.sdk.BaseNotifier is needed")
    return found


def find_fault(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the fault of a notifier that does not exist or does not take ``arguments``, or None.
    Imports the class but makes no instance: its constructor might open a connection."""
    try:
        found = notifier_class(name)
    except TypeError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        said = (
            str(error)
            if isinstance(error, (ImportError, AttributeError))
            else f"{type(error).__name__}: {error}"
        )
        return (
            f"cannot be imported ({said}); install its provider where Airflow runs, or correct "
            "the name"
        )
    try:
        inspect.signature(found).bind(**arguments)
    except TypeError as error:
        return f"{error}; see `with`"
    return None


def main() -> None:
    """Read ``[[name, {argument: value}], …]``, write ``[fault or null, …]``."""
    from airflow.configuration import conf

    dags = conf.get("core", "dags_folder")
    if dags and Path(dags).is_dir():
        sys.path.append(dags)  # as Airflow does before it reads a DAG
    with redirect_stdout(sys.stderr):  # what an import prints is no answer
        faults = [find_fault(name, arguments) for name, arguments in json.load(sys.stdin)]
    print(json.dumps(faults))


if __name__ == "__main__":
    main()

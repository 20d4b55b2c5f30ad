"""How a pipeline becomes a DAG, in small steps.

::

    YAML ──read_catalog──▶ Ready | Broken ──graph──▶ tasks and edges ──build──▶ airflow.sdk DAG
                           operators run the steps, each in a child process (step); notice tells how a run ended

``faults`` keeps what is wrong, and what was good before. ``graph`` knows no Airflow; ``operators``
import ``step``, and all else that costs time, when a task runs and not when it is parsed.
"""  # noqa: E501

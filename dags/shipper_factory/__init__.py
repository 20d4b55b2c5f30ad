"""How a pipeline becomes a DAG, in small steps.

::

    YAML ──catalog──▶ Pipeline | Broken ──graph──▶ tasks and edges ──build──▶ airflow.sdk DAG
                                                                      operators run the steps, each in a child process

``catalog`` and ``graph`` know no Airflow; ``operators`` import what they need when a task runs, not when it is parsed.
"""

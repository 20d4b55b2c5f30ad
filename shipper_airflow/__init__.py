"""What Airflow itself must be able to import, in the scheduler too: found there by the entry point
`airflow.plugins` of the installed package.

Everything else that is Airflow's lies in ``dags/``.
"""

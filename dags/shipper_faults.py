"""Airflow lists as an import error what is wrong in the configuration. The file is one of its own,
so that this harms no DAG. Written by `shipper dags install`."""

from shipper_airflow import dags

dags.raise_faults(__file__, written_by="0.1.0")

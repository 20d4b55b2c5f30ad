"""What is wrong in the configuration, for Airflow's list of import errors: a file of its own, which
harms no DAG. Written by `shipper dags install`."""

from shipper_airflow import dags

dags.raise_faults(__file__, written_by="0.1.0")

"""Airflow finds a DAG for every pipeline here. Written by `shipper dags install`."""

from shipper_airflow import dags

globals().update(dags.of(__file__))

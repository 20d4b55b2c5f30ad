"""Shipper in Airflow: the DAGs of a configuration (``dags``), operators for one's own DAGs
(``operators``), and what Airflow finds by itself, in the scheduler too, by the entry points of the
installed package: timetables, the deadline and the Shipments page (``plugin``)."""

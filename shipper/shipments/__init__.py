"""The Shipments page: which windows of which pipelines were shipped, are late, missing or failed;
by Airflow's plugin, and by `shipper ui`.

``outcomes`` says what became of a window on a cluster, by the run's report. ``index`` keeps that in
an SQLite file, which each report feeds and ``rebuild`` makes anew from the reports. ``grid`` and
``detail`` ask it, ``app`` answers requests with what they say, and ``server`` is a server of this
machine alone. Nothing here sends anything.
"""

"""Shipments page: which windows of which pipelines were shipped, are late, missing or failed; shown
by Airflow's plugin, and by `shipper ui`.

``outcomes`` gives the outcome of a window on a cluster, by the run's report. ``index`` keeps the
outcomes in an SQLite file, which each report feeds and ``rebuild`` makes again from the reports.
``grid`` and ``detail`` query it, ``app`` answers requests with their results, and ``server`` is a
server of this machine alone. No module here sends records.
"""

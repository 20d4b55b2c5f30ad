"""Shipments page: which windows of which pipelines were shipped, are late, missing or failed; in
Airflow, by its plugin.

``outcomes`` gives the outcome of a window on a cluster, by the run's report. ``index`` keeps the
outcomes in an SQLite file, which ``feed`` brings up to date. ``grid``, ``detail`` and ``cluster``
query it. ``view`` and ``overview`` choose and draw what an address asks for, ``app`` answers
requests with it. No module here sends records.
"""

"""A simulated world for the product's own code: one process, virtual time, one seed.

``world`` schedules; ``primitives`` stand in for :mod:`shipper.runtime`; ``broker`` is a Kafka as
the protocol sees it, and ``clients`` are confluent-kafka's classes on top of it.
"""

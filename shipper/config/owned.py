"""Settings of Spark and of Kafka clients that a user may not set, and why: shipper's promises rest on them."""

from __future__ import annotations

PINNED_SPARK_SETTINGS = {
    "spark.sql.files.maxPartitionBytes": "it decides where files are cut; set `source.split_size`",
    "spark.sql.files.openCostInBytes": "it decides where files are cut",
    "spark.sql.files.minPartitionNum": "it decides where files are cut",
    "spark.sql.files.maxPartitionNum": "it decides where files are cut",
    "spark.sql.files.ignoreCorruptFiles": "a corrupt file would be shipped in part, silently",
    "spark.sql.files.ignoreMissingFiles": "a missing file would be left out, silently",
    "spark.speculation": "two attempts of one task would fence each other",
    "spark.sql.session.timeZone": "windows and timestamps are UTC",
    "spark.pyspark.python": "set `runner.python`",
    "spark.master": "set `runner.kind`, `runner.cores` and `runner.master`",
    "spark.driver.memory": "set `runner.driver_memory`",
}

OWNED_KAFKA_PROPERTIES = {
    "bootstrap.servers": "use `bootstrap`",
    "metadata.broker.list": "use `bootstrap`",
    "transactional.id": "a lane's identity; exactly-once rests on it",
    "enable.idempotence": "exactly-once needs it",
    "acks": "exactly-once needs all",
    "request.required.acks": "exactly-once needs all",
    "isolation.level": "the ledger is read read_committed",
    "batch.size": "use the pipeline's `delivery.batch_size`",
    "compression.type": "use the pipeline's `delivery.compression`",
    "compression.codec": "use the pipeline's `delivery.compression`",
    "transaction.timeout.ms": "use the pipeline's `delivery.transaction_timeout`",
    "message.timeout.ms": "use the pipeline's `delivery.transaction_timeout`",
    "delivery.timeout.ms": "use the pipeline's `delivery.transaction_timeout`",
    "partitioner": "murmur2, as Java's producer",
    "linger.ms": "the lanes decide when a batch is full",
    "queue.buffering.max.ms": "the lanes decide when a batch is full",
    "batch.num.messages": "use the pipeline's `delivery.batch_size`",
    "queue.buffering.max.messages": "memory is bounded by `delivery.chunk_size` and `delivery.lanes`",
    "queue.buffering.max.kbytes": "memory is bounded by `delivery.chunk_size` and `delivery.lanes`",
    "delivery.report.only.error": "the lanes count failures",
    "message.max.bytes": "the topic's own limit decides",
    "group.id": "shipper reads without a consumer group",
    "auto.offset.reset": "the ledger is read from known offsets",
    "enable.auto.commit": "shipper reads without a consumer group",
    "enable.partition.eof": "the reader of the ledger needs it",
}

"""Real servers for development and tests, from jars alone: no Docker, no Maven, no administrator.

``shipper dev up`` starts them, remembers them and stops them (:mod:`shipper_tools.dev.commands`);
tests start their own (:class:`shipper_tools.dev.kafka.KafkaServer`). Everything listens on
loopback, without passwords: not for production.
"""

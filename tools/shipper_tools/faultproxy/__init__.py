"""A TCP proxy in a process of its own that makes a link to a real broker long, narrow or broken, on
demand.

By hand, controlled by lines on standard input, one JSON document back for each::

    $ python -m shipper_tools.faultproxy --to 127.0.0.1:9092
    {"listening": "127.0.0.1:40123"}
    {"do": "reshape", "rtt_ms": 140}
    {"reshape": null}
    {"do": "cut"}
    {"cut": 3}

In a test, one proxy for each listener that a broker advertises, since clients reconnect to what is
advertised::

    far_port = free_port()
    with KafkaServer(tmp_path, far_port=far_port) as kafka, FaultProxy(kafka.far_listener, far_port, rtt_ms=140) as link:
        ...                       # clients use kafka.far_bootstrap
        link.hold_request(26)     # the next EndTxn stops here, and all that its connection sends after it
        link.wait_held(10)
        link.release()            # it reaches the broker also when its client has hung up meanwhile

Limits: a client's connect succeeds also when the broker is gone, and is reset then. Holds and
``request_delay_ms`` understand Kafka's framing without TLS only.
"""  # noqa: E501

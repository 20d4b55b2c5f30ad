"""TCP ports on loopback."""

from __future__ import annotations

import errno
import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"

_LOWEST = 10_000
"""Below it are the ports of services that people know by number."""

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_EPHEMERAL = 32_768
"""Where the kernel does not say: Linux's default; IANA's and macOS's range begins above it."""

_TRIES = 500

_claims: list[socket.socket] = []
"""Bound, never read: one for each port that this process was given."""


def why_unusable(port: int) -> str | None:
    """Why a server could not listen on ``port`` of loopback right now; None if it could."""
    with socket.socket() as probe:
        # As servers do it: connections of a server that has just gone (TIME_WAIT) do not count,
        # listeners do.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as problem:
            if problem.errno == errno.EADDRINUSE:
                return "is taken by another process"
            return f"cannot be used ({problem.strerror})"
    return None


def free_port() -> int:
    """A port that nothing listens on, which no other process that asks here is given while this one
    lives.

    It lies below the range from which the kernel takes the near ends of connections: any client on
    this machine could take a port of that range between this answer and the server's start. Who
    asks at the same moment, a thread or another process, is kept off by the UDP port of the same
    number, which is bound as long as this process lives.

    Raises:
        OSError: hundreds of ports in a row were taken.
    """
    below = (
        min(_FIRST_EPHEMERAL, int(_EPHEMERAL.read_text().split()[0]))
        if _EPHEMERAL.exists()
        else _FIRST_EPHEMERAL
    )
    for _ in range(_TRIES):
        port = random.randrange(_LOWEST, below)
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            claim.bind((LOOPBACK, port))
        except OSError:
            claim.close()
            continue
        if why_unusable(port) is None:
            _claims.append(claim)
            return port
        claim.close()
    raise OSError(errno.EADDRINUSE, f"{_TRIES} ports between {_LOWEST} and {below} were all taken")

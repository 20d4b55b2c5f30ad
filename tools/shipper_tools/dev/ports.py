"""TCP ports on loopback."""

from __future__ import annotations

import errno
import socket

LOOPBACK = "127.0.0.1"


def why_unusable(port: int) -> str | None:
    """Why a server could not listen on ``port`` of loopback right now; None if it could."""
    with socket.socket() as probe:
        # As servers do it: connections of a server that has just gone (TIME_WAIT) do not count, listeners do.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as problem:
            if problem.errno == errno.EADDRINUSE:
                return "is taken by another process"
            return f"cannot be used ({problem.strerror})"
    return None


def free_port() -> int:
    """A port that nothing listens on and that the kernel will give to nobody else for the next minute.

    Asking for port 0 and closing again would hand the same port to a test that starts at the same moment. A connection
    left in TIME_WAIT keeps the kernel from choosing the port again, but not a server from binding it explicitly.
    (The method of Yelp's ephemeral-port-reserve.)
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, 0))
        listener.listen(1)
        address: tuple[str, int] = listener.getsockname()
        with socket.create_connection(address), listener.accept()[0]:
            pass  # the accepted side closes first, so that TIME_WAIT is on the listener's port
    return address[1]

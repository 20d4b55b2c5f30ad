"""What can go wrong with a dev server.

::

    DevServerError            exit code 1
    ├── PortTaken             another process listens where the server should
    └── ServerDied            a server that stopped, or never answered, while it was being started

Like every error of shipper they carry one message, which says what was found and what to do.
"""

from __future__ import annotations

from shipper.errors import ShipperError


class DevServerError(ShipperError):
    """Root of the dev servers' errors."""

    code = "SHIP-951"


class PortTaken(DevServerError):
    code = "SHIP-952"
    retriable = True


class ServerDied(DevServerError):
    code = "SHIP-953"

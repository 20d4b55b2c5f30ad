"""``python -m shipper.dev``: the dev commands by themselves."""

from __future__ import annotations

import sys

from rich.console import Console

from shipper.dev.commands import app
from shipper.errors import ShipperError


def main() -> None:
    """Run a command. Ends the process: 0 done, 1 failed, 2 wrong usage."""
    try:
        app(prog_name="python -m shipper.dev")
    except ShipperError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()

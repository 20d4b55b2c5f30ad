"""``python -m shipper_tools.dev``: the dev commands by themselves."""

from __future__ import annotations

import sys

from rich.console import Console

from shipper.errors import ShipperError
from shipper_tools.dev.commands import app


def main() -> None:
    """Run a command. Ends the process: 0 done, 1 failed, 2 wrong usage."""
    try:
        app(prog_name="python -m shipper_tools.dev")
    except ShipperError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()

"""The ``shipper`` command."""

import os
import signal
import sys


def main() -> None:
    """Run the command line. Python imports it for about a second; Ctrl-C meanwhile ends the process
    as TERM does, without a stack. A standard stream that is closed is the null device, or else the
    next file that is opened would take its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from shipper.cli.main import main as run_command

    run_command()


if __name__ == "__main__":
    main()

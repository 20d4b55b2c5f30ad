"""A command line in the process of the tests: a start of its own costs a CPU second."""

import contextlib
import importlib
import io
import signal
import sys
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


def run(
    monkeypatch: pytest.MonkeyPatch, *arguments: str, encoding: str = "utf-8", **environment: str
) -> Ended:
    """Run ``shipper`` with ``arguments``, and with ``environment`` added to that of the tests."""
    main = importlib.import_module("shipper.cli.main").main
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    handlers = {
        number: signal.getsignal(number)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    with (
        monkeypatch.context() as patched,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patched.setattr(sys, "argv", ["shipper", *arguments])
        for name, value in environment.items():
            patched.setenv(name, value)
        try:
            with pytest.raises(SystemExit) as end:
                main()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    for stream in (out, err):
        stream.seek(0)
    return Ended(int(end.value.code or 0), out.read(), err.read())

"""Foreign text (file names, log lines, Java's words) on its way to a terminal. It cannot move the
cursor, set a colour, hide or turn the text around it, or be taken for markup."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import sys

from shipper.errors import UsageError

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
#: Control characters (except tabs), overrides of the writing direction and other invisible
#: characters, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff]"
)
#: Replacements for an output that has only ASCII or Latin-1.
_PLAIN = {
    "✓": "ok",
    "✗": "x",
    "—": "-",
    "–": "-",
    "…": "...",
    "·": "-",
    "×": "x",
    "≥": ">=",
    "≤": "<=",
    "─": "-",
    "▶": ">",
    "→": "->",
}


def visible(text: str, *, keep: str = "") -> str:
    """Return ``text`` with each invisible character as its code, such as ``\\x1b`` or ``\\u202e``;
    those in ``keep`` stay."""
    return _UNSEEN.sub(lambda found: found[0] if found[0] in keep else _code(found[0]), text)


def _code(character: str) -> str:
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"


def replace_unencodable_characters() -> None:
    """Replace characters that standard output's and error's encoding does not have: by something
    similar, or by their code."""
    codecs.register_error("shipper", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="shipper")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    found = error.object[error.start : error.end]
    return "".join(
        _PLAIN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in found
    ), error.end


def log_level() -> str | None:
    """Return the level that SHIPPER_LOG names; None if it names none. Raises UsageError."""
    level = os.environ.get("SHIPPER_LOG", "").upper()
    if level and level not in _LEVELS:
        raise UsageError(
            f"SHIPPER_LOG={os.environ['SHIPPER_LOG']} is no level of a log. Nothing was done. Set "
            "it to info or debug, or remove it."
        )
    return level or None


def say(text: str) -> None:
    """Print progress, for people and for Airflow's task log. Standard output belongs to
    `--json`."""
    with contextlib.suppress(OSError):  # the reader is gone; the work continues
        print(visible(text, keep="\n"), file=sys.stderr, flush=True)

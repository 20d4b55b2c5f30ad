"""Figures as the results of checks show them. None of them looks better than it is: a share below its limit never looks like it."""

from __future__ import annotations


def between(fewest: str | None, most: str | None, what: str = "") -> str:
    """``≥ 1 files``, ``1–3 files``, ``≤ 3 files``, ``3 files``."""
    unit = f" {what}" if what else ""
    if fewest is not None and fewest == most:
        return f"{fewest}{unit}"
    if fewest is not None and most is not None:
        return f"{fewest}–{most}{unit}"
    if most is not None:
        return f"≤ {most}{unit}"
    return f"≥ {fewest}{unit}" if fewest is not None else f"any number of {what}"


def figure(count: int | None) -> str | None:
    return None if count is None else f"{count:,}"


def share(part: int, whole: int) -> str:
    """``99.9999 %``, rounded down."""
    percent = part * 1_000_000 // whole / 10_000
    # Near an end every digit counts; in the middle four of them would only be read.
    return f"{int(percent * 100) / 100 if 1 <= percent <= 99 else percent:.12g} %"


def rate(value: float) -> str:
    return f"{100 * value:.12g} %"


def listed(items: list[str], most: int = 5) -> str:
    return ", ".join(items[:most]) + (f" and {len(items) - most:,} more" if len(items) > most else "")

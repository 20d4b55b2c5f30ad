"""What a fault of the configuration names; how it is worded is free."""

import re


def names_in(fault: str) -> set[str]:
    """Return what stands in quotes or backticks, and the numbers."""
    found = re.findall(r"'([^']*)'|`([^`]*)`|(?<![\w%.:-])(-?\d[\w.:+-]*)", fault)
    return {quoted or code or number for quoted, code, number in found}

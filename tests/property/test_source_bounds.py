"""A pattern that `allow.sources` accepts names nothing outside of the folder, whatever Hadoop makes
of it."""

import contextlib
import datetime as dt
import itertools
import posixpath
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shipper.config.rules import check_source_placeholders, lies_below
from shipper.windows.window import Window, source_paths

ROOT = "/srv/logs/team/"
WINDOW = Window(
    dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC), dt.datetime(2026, 11, 1, 7, tzinfo=dt.UTC)
)
LEADS_OUT = (
    r"\../\../\../etc/",
    ".{window_start:./%Y/.}./.{window_start:./%Y/.}./.{window_start:./%Y/.}./etc/",
    ".{window_end:./%Y/.}./x",
    ".{./a/.,x/y}./.{./a/.,x/y}./.{./a/.,x/y}./etc/",
    "{a,../b}/",
    "../other/",
)
parts = st.sampled_from(
    [
        "/",
        ".",
        "..",
        "\\",
        "{",
        "}",
        ",",
        "a",
        "*",
        "[.]",
        "./",
        "/.",
        "{window_start:%Y}",
        "{window_start:./%Y/.}",
        "{window_end:%H/..}",
    ]
)


def expanded(pattern):
    """Yield what Hadoop's GlobExpander makes of a pattern: alternatives with a slash in them become
    patterns of their own."""
    start, depth, commas, slash, at = 0, 0, list[int](), False, 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            at += 1
        elif character == "{":
            depth += 1
            if depth == 1:
                start, commas, slash = at, [], False
        elif character == "}" and depth:
            depth -= 1
            if depth == 0 and slash:
                ends = [start, *commas, at]
                for left, right in itertools.pairwise(ends):
                    yield from expanded(
                        pattern[:start] + pattern[left + 1 : right] + pattern[at + 1 :]
                    )
                return
        elif character == "," and depth == 1:
            commas.append(at)
        elif character == "/" and depth:
            slash = True
        at += 1
    yield pattern


def named(pattern):
    """Return the folder that a pattern names where each wildcard meets an entry `x`."""
    components = [
        "x" if re.search(r"(?<!\\)[*?{\[]", component) else re.sub(r"\\(.)", r"\1", component)
        for component in pattern.split("/")
    ]
    return posixpath.normpath("/".join(components)) + "/"


@settings(max_examples=4 * settings().max_examples)
@given(st.lists(parts, max_size=14).map("".join))
@example(LEADS_OUT[0])
@example(LEADS_OUT[1])
@example(LEADS_OUT[3])
def test_an_accepted_pattern_stays_below_the_root(rest):
    pattern = ROOT + rest
    accepted = lies_below(pattern, ROOT)
    with contextlib.suppress(ValueError):
        check_source_placeholders(pattern)
        for path in source_paths(pattern, WINDOW):
            for one in expanded(path):
                assert not accepted or named(one).startswith(ROOT), (path, one)


@pytest.mark.parametrize("rest", LEADS_OUT)
def test_a_pattern_that_leads_out_is_refused(rest):
    assert not lies_below(ROOT + rest, ROOT)


@pytest.mark.parametrize(
    "rest", ["", "{window_start:%Y/%m/%d}/", "{a,b}/{c,d}/*.log", "[ab]?/.hidden/...", "a..b/"]
)
def test_usual_patterns_are_accepted(rest):
    assert lies_below(ROOT + rest, ROOT)

from __future__ import annotations

from pathlib import Path

import pytest
from shipper_tools.dev.java import find_java, parse_version


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', ("17.0.15", 17)),
        ('java version "1.8.0_392"\nJava(TM) SE Runtime Environment', ("1.8.0_392", 8)),
        ('openjdk version "21" 2023-09-19', ("21", 21)),
        ('openjdk version "26-ea" 2026-03-17', ("26-ea", 26)),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=y\nopenjdk version "25.0.1" 2025-10-21', ("25.0.1", 25)),
        ("The operation couldn’t be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_version_is_read_from_what_java_says(said: str, expected: tuple[str, int] | None) -> None:
    assert parse_version(said) == expected


def fake_java(folder: Path, says: str) -> Path:
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\n")
    launcher.chmod(0o755)
    return launcher


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    chosen = fake_java(tmp_path / "home", 'openjdk version "21.0.1" 2023-10-17')
    other = fake_java(tmp_path / "other", 'openjdk version "17.0.1" 2021-10-19')

    java = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": f"{other.parent}:/bin:/usr/bin"})

    assert (java.path, java.version, java.major) == (chosen, "21.0.1", 21)

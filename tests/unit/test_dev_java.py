from __future__ import annotations

from pathlib import Path

import pytest
from shipper_tools.dev.errors import JavaMissing
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


def test_without_any_java_the_error_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(
        JavaMissing, match=r"No Java was found: .*Install a Java runtime of version 17 or newer"
    ):
        find_java({"PATH": str(tmp_path)})


def test_a_java_that_is_too_old_is_named_with_its_version_and_place(tmp_path: Path) -> None:
    launcher = fake_java(tmp_path, 'java version "1.8.0_392"')

    with pytest.raises(JavaMissing) as caught:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/bin:/usr/bin"})

    assert str(caught.value).startswith(
        f"Java 1.8.0_392 is too old: {launcher} (from JAVA_HOME={tmp_path}), but 17 is"
    )


def test_a_java_home_without_java_is_not_skipped(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match=r"JAVA_HOME=\S+ has no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/bin:/usr/bin"})


def test_a_launcher_that_is_no_java_is_quoted(tmp_path: Path) -> None:
    launcher = fake_java(tmp_path, "Unable to locate a Java Runtime.")

    with pytest.raises(
        JavaMissing, match=r"is no working Java: it said 'Unable to locate a Java Runtime.'"
    ):
        find_java({"PATH": f"{launcher.parent}:/bin:/usr/bin"})

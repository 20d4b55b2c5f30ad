"""The committed jar is what the committed Java sources become."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from shipper.runner import READER_JAR


@pytest.fixture(scope="module")
def build() -> Any:
    spec = importlib.util.spec_from_file_location("jvm_build", Path(__file__).parents[2] / "jvm" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_jar_was_made_of_the_sources_that_are_there(build):
    with zipfile.ZipFile(READER_JAR) as jar:
        made_of = jar.read(build.SOURCES_ENTRY).decode()
    assert made_of == build.sources(), "jvm/ was changed and the jar was not: run `python jvm/build.py`"


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")
def test_the_same_compiler_makes_the_same_bytes(build, tmp_path):
    compiler = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True).stdout.split()[1]
    with zipfile.ZipFile(READER_JAR) as jar:
        if jar.read(build.COMPILER_ENTRY).decode() != compiler.split(".")[0]:
            pytest.skip(f"the jar was made by another javac than {compiler}")
    build.build(tmp_path / "again.jar")
    assert (tmp_path / "again.jar").read_bytes() == READER_JAR.read_bytes()

"""The committed jar is what the committed Java sources become. That a compiler makes it of them:
tests/integration/test_java_start.py."""

import importlib.util
import zipfile
from pathlib import Path

from shipper.runner import READER_JAR


def jvm_build():
    """Return jvm/build.py."""
    spec = importlib.util.spec_from_file_location(
        "jvm_build", Path(__file__).parents[2] / "jvm" / "build.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_jar_was_made_of_the_sources_that_are_there():
    build = jvm_build()
    with zipfile.ZipFile(READER_JAR) as jar:
        made_of = jar.read(build.SOURCES_ENTRY).decode()
    assert made_of == build.sources(), (
        "jvm/ was changed and the jar was not: run `python jvm/build.py`"
    )

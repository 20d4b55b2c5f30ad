"""Command line of a driver's JVM, as Spark's own launcher builds it.

`spark-submit` runs bash, a JVM that prints the command of the driver's JVM, and then that command:
2 s and 2 CPU seconds before the first class of the driver is loaded. For a local driver the command
is always the same, so it is built here, and a test compares it with the launcher's
(tests/integration/test_java_start.py). Any setting that the launcher would read leads to the
launcher: :func:`command` gives None, and `spark-submit` decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from shipper import s3a
from shipper.java import find_java
from shipper.runner import READER_JAR

#: Of the Spark whose launcher says :data:`_MODULES` (org.apache.spark.launcher.JavaModuleOptions).
_KNOWN_MINOR = "4.2"
_OPENED = (
    *(
        "java.lang",
        "java.lang.invoke",
        "java.lang.reflect",
        "java.io",
        "java.net",
        "java.nio",
        "java.util",
        "java.util.concurrent",
    ),
    *(
        "java.util.concurrent.atomic",
        "jdk.internal.ref",
        "sun.nio.ch",
        "sun.nio.cs",
        "sun.security.action",
        "sun.util.calendar",
    ),
)
_MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
#: With one of these, or one of the files, somebody has something to say to the launcher.
_THEIRS = (
    *(
        "PYSPARK_SUBMIT_ARGS",
        "SPARK_SUBMIT_OPTS",
        "SPARK_PREPEND_CLASSES",
        "SPARK_TESTING",
        "SPARK_SQL_TESTING",
        "SPARK_LAUNCHER_OPTS",
    ),
    *("SPARK_DIST_CLASSPATH", "_SPARK_CMD_USAGE"),
)
_THEIR_FILES = ("spark-defaults.conf", "spark-env.sh", "java-opts")
_CLASS_PATH = "spark.driver.extraClassPath"
#: Jars of Spark's that are left out. With the library for machine learning on the class path, every
#: new session registers its functions, which takes a second of CPU (docs/adr/0014).
_LEFT_OUT = re.compile(r"spark-mllib_.*\.jar")
_THEIR_SETTINGS = ("spark.driver.extraLibraryPath", "spark.driver.defaultJavaOptions")
#: Appended to the class path, as the launcher does.
_HADOOP_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def spark_home() -> Path:
    """Return pyspark's own Spark home. It is not imported for that."""
    spec = find_spec("pyspark")
    assert spec is not None, "pyspark is not installed"
    assert spec.origin is not None
    return Path(spec.origin).parent


def class_path(home: Path) -> str:
    """Return the class path of every driver on this machine, so that one class-data archive fits
    them all: further entries may only be appended. The reader's jar is in it too, since only
    classes that this loader has loaded can be archived."""
    jars = [jar for jar in sorted((home / "jars").glob("*.jar")) if not _LEFT_OUT.match(jar.name)]
    first = [jar for jar in jars if jar.name.startswith("slf4j-api-")]
    return os.pathsep.join(map(str, [*first, *jars, READER_JAR]))


def command(settings: Mapping[str, str], options: Sequence[str] = ()) -> list[str] | None:
    """Return the argv of a JVM that waits for Python as `spark-submit … pyspark-shell` would start
    it, with ``options`` of the JVM's before what the settings have; None if only `spark-submit` can
    tell. Raises JavaUnavailable."""
    home = spark_home()
    if not _is_plain(settings, home):
        return None
    conf_dir = conf_folder(home)
    path = [*([str(conf_dir)] if conf_dir.exists() else []), class_path(home)]
    path += filter(None, [settings.get(_CLASS_PATH)])  # behind all that is archived
    path += [os.environ[name] for name in _HADOOP_FOLDERS if os.environ.get(name)]
    own = settings.get("spark.driver.extraJavaOptions", "").split()
    return [
        *(
            str(find_java().path),
            "-cp",
            os.pathsep.join(path),
            f"-Xmx{settings['spark.driver.memory']}",
        ),
        *(*options, *own, *_MODULES),
        "org.apache.spark.deploy.SparkSubmit",
        *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}")),
        "pyspark-shell",
    ]


def environment(home: Path) -> dict[str, str]:
    """Return the variables that `spark-submit`'s scripts would add to this process's
    environment."""
    return {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(conf_folder(home)),
        "SPARK_ENV_LOADED": "1",
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_CONNECT_MODE": "0",
        "PYTHONHASHSEED": "0",
    }


def conf_folder(home: Path) -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")


def _is_plain(settings: Mapping[str, str], home: Path) -> bool:
    elsewhere = os.environ.get("SPARK_HOME", str(home))
    return (
        version("pyspark").startswith(f"{_KNOWN_MINOR}.")
        and os.name == "posix"
        and Path(elsewhere).resolve() == home.resolve()
        and settings.get("spark.master", "").startswith("local")
        and not any(os.environ.get(name) for name in _THEIRS)
        and not any(settings.get(name) for name in _THEIR_SETTINGS)
        and (_CLASS_PATH not in settings or s3a.is_ours(settings[_CLASS_PATH]))
        and not any((conf_folder(home) / name).exists() for name in _THEIR_FILES)
        # The launcher takes quotes and backslashes apart, and refuses a heap size.
        and not re.search(r"['\"\\]|-Xmx", settings.get("spark.driver.extraJavaOptions", ""))
    )

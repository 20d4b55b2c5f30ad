"""Environment of the process that runs a job: only the variables that it needs, by name.

An Airflow worker's environment holds the key of Airflow's own secrets, its database's address, and
the passwords of clusters that the pipeline has nothing to do with. The process that ships runs SQL
and settings that the pipeline's author wrote.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase

_MACHINE = (
    "PATH HOME USER LOGNAME SHELL HOSTNAME TMPDIR TMP TEMP TZ LANG LANGUAGE LC_* XDG_* "
    "LD_LIBRARY_PATH LD_PRELOAD GLIBC_TUNABLES MALLOC_* OMP_NUM_THREADS NO_COLOR"
)
_NETWORK = (
    "HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY http_proxy https_proxy no_proxy all_proxy "
    "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE OPENSSL_CONF KRB5*"
)
_LANGUAGES = (
    "JAVA_HOME JRE_HOME JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS CLASSPATH PYTHON* "
    "VIRTUAL_ENV CONDA_PREFIX SPARK_* PYSPARK_* KUBECONFIG KUBERNETES_SERVICE_*"
)
#: Where files and results lie; their credentials are among these.
_STORAGE = "HADOOP_* HDFS_* YARN_* AWS_* GOOGLE_* GCS_* AZURE_* FSSPEC_*"
_OURS = "SHIPPER_LOG SHIPPER_CACHE"
#: A name with ``*`` may have any end.
_NEEDED = " ".join((_MACHINE, _NETWORK, _LANGUAGES, _STORAGE, _OURS)).split()


def needed(environment: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables of ``environment`` that the list above or ``also`` names."""
    patterns: Collection[str] = (*_NEEDED, *also)
    return {
        name: value
        for name, value in environment.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def forget(names: Collection[str]) -> None:
    """Remove variables from this process's environment once they are read, so that its children
    (Java, Spark's workers) never have them. What every job needs stays."""
    for name in set(names) - needed(dict.fromkeys(names, "")).keys():
        os.environ.pop(name, None)


def here(also: Iterable[str] = ()) -> dict[str, str]:
    """Return the needed variables of this process."""
    return needed(os.environ, also)

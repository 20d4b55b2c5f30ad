"""Kerberos between Spark's Java and HDFS: failures of the login by their words, and who is logged
in on this machine."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

CODE = "SHIP-313"
#: Words of Hadoop's clients and of Java's Kerberos.
_FAILURES = re.compile(
    r"Client cannot authenticate via|SIMPLE authentication is not enabled|KerberosAuthException"
    r"|GSSException|GSS initiate failed|Keytab file: .* does not exist|Kerberos realm"
    r"|Token has expired"
)
_KLIST_SECONDS = 5.0
_SETTING = "hadoop.security.authentication"


def is_refused(why: str) -> bool:
    """True if the reason of a failed read or listing is a Kerberos login that HDFS refuses."""
    return _FAILURES.search(why) is not None


def remedy() -> str:
    """Return who is logged in, until when, and what to do."""
    return (
        f"{logged_in()}. Run `kinit` as the user that runs shipper, or give "
        "`spark.kerberos.principal` and a `spark.kerberos.keytab` that holds it in `runner.conf`; "
        "HADOOP_CONF_DIR must name the folder whose core-site.xml has "
        "`hadoop.security.authentication: kerberos`. Java finds the KDC by /etc/krb5.conf"
    )


def logged_in() -> str:
    """Return whose ticket this machine has, and its end, as `klist` tells it."""
    try:
        done = subprocess.run(
            ["klist"], capture_output=True, text=True, timeout=_KLIST_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "Whether there is a Kerberos ticket is unknown, since `klist` does not answer"
    user = re.search(r"^Default principal: (\S+)", done.stdout, re.MULTILINE)
    ticket = re.search(r"^\S+ \S+\s+(\S+ \S+)\s+krbtgt/", done.stdout, re.MULTILINE)
    if not user or not ticket:
        return "There is no Kerberos ticket"
    return f"The Kerberos ticket of {user[1]} ends {ticket[1]}"


def is_on(conf: Mapping[str, str]) -> bool:
    """True if these settings of Spark, or core-site.xml in HADOOP_CONF_DIR, turn Kerberos on."""
    if (given := conf.get(f"spark.hadoop.{_SETTING}")) is not None:
        return given.lower() == "kerberos"
    folder = os.environ.get("HADOOP_CONF_DIR")
    if not folder:
        return False
    import xml.etree.ElementTree as ET  # few runs need it

    try:
        root = ET.parse(Path(folder) / "core-site.xml").getroot()  # the machine's own
    except (OSError, ET.ParseError):
        return False
    settings = {each.findtext("name"): each.findtext("value") for each in root.iter("property")}
    return (settings.get(_SETTING) or "").lower() == "kerberos"

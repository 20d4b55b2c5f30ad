"""Codes of errors: ``SHIP-303``.

A code stands for one remedy, not for one place in the code. It ends each error message and names
the error's section in docs/reference/errors.md, which ``shipper schema`` writes from this table. A
code is never given to another error: a new error gets a new number.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_AT_THE_END = re.compile(r"\s*\[(SHIP-\d{3})\]\s*$")
UNEXPECTED = "SHIP-001"
STOPPED = "SHIP-002"
GATE_CLOSED = {"gate_source": "SHIP-701", "gate_delivery": "SHIP-702"}
"""Step → code of its closed gate."""


class ErrorCode(NamedTuple):
    title: str
    """Sentence that says what happened."""
    data: str
    """Sentences that say what the error means for the data."""
    remedy: str
    """Sentences that say what to do."""


_KEPT = "What was committed stays and is not sent again."
_NOTHING = "Nothing was sent."
_UNCHANGED = "Nothing was sent or changed."
_AGAIN = "Run the window again: the run ships only what is left."

CODES: Mapping[str, ErrorCode] = {
    "SHIP-001": ErrorCode(
        "An error happened that shipper does not know.",
        _KEPT,
        f"Read the message. {_AGAIN} If the error stays, run with `--verbose` and report the "
        "output as a bug.",
    ),
    "SHIP-002": ErrorCode(
        "The process was stopped by a signal, or its parent process ended.", _KEPT, _AGAIN
    ),
    "SHIP-003": ErrorCode(
        "A step left no result: the step did not run, was killed, or failed at its start.",
        _KEPT,
        "Read the last lines of the step's log. If the process was killed, look for the kernel's "
        f"out-of-memory killer. {_AGAIN}",
    ),
    "SHIP-004": ErrorCode(
        "A step's result cannot be read, or belongs to another run.",
        _NOTHING,
        "Start the run again from its first step.",
    ),
    "SHIP-005": ErrorCode(
        "The folder of the run's results (`runs_uri`) cannot be used.",
        _NOTHING,
        "Check `runs_uri`: the scheme and its Python package, the credentials, the permissions and "
        "the free space. Run the window again.",
    ),
    "SHIP-006": ErrorCode(
        "The plan is out of date: the pipeline or the ledger changed after the plan was made.",
        _NOTHING,
        "Start the run again from the plan. In Airflow, clear the whole run.",
    ),
    "SHIP-007": ErrorCode(
        "A file that shipper keeps beside the results of the runs is damaged.",
        "No records are lost. The ledger still holds what was shipped.",
        "Restore the file from a backup, or delete the file. The message says what its loss costs.",
    ),
    "SHIP-101": ErrorCode(
        "An argument or an option of the command is missing or malformed.",
        _UNCHANGED,
        "Correct the command as the message says. `--help` shows the options.",
    ),
    "SHIP-102": ErrorCode("Two options contradict each other.", _UNCHANGED, "Leave one out."),
    "SHIP-103": ErrorCode(
        "A file exists already and is not overwritten.",
        "Nothing was written.",
        "Move the file away, or choose another name.",
    ),
    "SHIP-104": ErrorCode(
        "A local file or folder cannot be read or written.",
        _UNCHANGED,
        "Check the path, its permissions and the free space of the disk.",
    ),
    "SHIP-105": ErrorCode(
        "The pipeline has no `schedule`, and the command needs one.",
        _UNCHANGED,
        "Name the window with `--window`, or add a `schedule` to the pipeline.",
    ),
    "SHIP-106": ErrorCode(
        "The start of the schedule is unknown.",
        _UNCHANGED,
        "Give `--since`, or set `schedule.start` in the pipeline's file.",
    ),
    "SHIP-107": ErrorCode(
        "A path lies outside the folders that the platform allows (`allow.sources`).",
        _NOTHING,
        "Correct the path, or ask the owner of the platform's file to allow its folder.",
    ),
    "SHIP-108": ErrorCode(
        "The pipeline does not ship to the named cluster, or no cluster was named.",
        _UNCHANGED,
        "Name one of the pipeline's clusters.",
    ),
    "SHIP-109": ErrorCode(
        "The command needs a confirmation.",
        _UNCHANGED,
        "Read what the command would do. Run the command again with the option that the message "
        "names.",
    ),
    "SHIP-110": ErrorCode(
        "A package that the command needs is not installed.",
        _UNCHANGED,
        "Install the extra that the message names.",
    ),
    "SHIP-111": ErrorCode(
        "Repaired records of a quarantine are not accepted.",
        "Nothing was sent. All records stay in quarantine.",
        "Correct the lines that the message names. Run the same command again.",
    ),
    "SHIP-112": ErrorCode(
        "The replay is unknown, or was started with other options.",
        _NOTHING,
        "Give only `--id` and `--rate` to continue a replay. Leave `--id` out to start a new one.",
    ),
    "SHIP-113": ErrorCode(
        "No test was written, or there is none to run.",
        "Nothing was written.",
        "Do what the message says. `shipper preview PIPELINE --save-test` writes a first test.",
    ),
    "SHIP-114": ErrorCode(
        "Spark could not be started to analyse SQL expressions.",
        "The expressions are unchecked. Nothing was sent.",
        "Install `shipper[spark]`, name another environment with `--runner-python`, or skip the "
        "analysis with `--no-sql`.",
    ),
    "SHIP-115": ErrorCode(
        "The ledger has no damaged record at this place.",
        "Nothing was changed.",
        "Run `shipper ledger verify PIPELINE` and name a place that it shows.",
    ),
    "SHIP-116": ErrorCode(
        "A topic cannot take the records that the command would send there.",
        _NOTHING,
        "Name a topic that the pipeline routes to and that exists on the cluster.",
    ),
    "SHIP-117": ErrorCode(
        "A replay by time needs `records.timestamp`.",
        _NOTHING,
        "Choose the records with `--window` or `--files` instead of `--from` and `--to`.",
    ),
    "SHIP-118": ErrorCode(
        "A file for metrics cannot be used.",
        "The file was not changed. What was shipped stays shipped.",
        "Name another file that ends in `.prom`, in a folder that this user may write to.",
    ),
    "SHIP-201": ErrorCode(
        "The configuration has faults.",
        "Nothing is shipped by the pipelines concerned.",
        "Correct each fault at its file, line and column. `shipper validate` shows all faults.",
    ),
    "SHIP-202": ErrorCode(
        "No pipeline, cluster or test has this name.",
        _UNCHANGED,
        "Correct the name. `shipper list` shows the pipelines.",
    ),
    "SHIP-203": ErrorCode(
        "The configuration's folder is missing or incomplete.",
        _UNCHANGED,
        "Name the folder with `--config` or SHIPPER_CONFIG. `shipper new` writes a first pipeline.",
    ),
    "SHIP-204": ErrorCode(
        "A file with tests of a pipeline has faults.",
        "The tests did not run. Nothing was sent.",
        "Correct each fault at its file and line. Run `shipper test` again.",
    ),
    "SHIP-205": ErrorCode(
        "Spark refuses an SQL expression of the pipeline.",
        _NOTHING,
        "Correct the expression. `shipper validate` analyses all expressions.",
    ),
    "SHIP-206": ErrorCode(
        "A variable, a secret file or an Airflow connection that the configuration refers to is "
        "not known in this process.",
        _NOTHING,
        "Set the variable, or make the file or the connection available to the process that "
        "failed. Nobody else may be able to read a secret file (mode 0600).",
    ),
    "SHIP-207": ErrorCode(
        "No Kafka client can be made with a cluster's `properties`, or no client of its Schema "
        "Registry.",
        _NOTHING,
        "Correct the settings in the cluster's file, or provide the file that a setting names. "
        "`shipper validate` checks them.",
    ),
    "SHIP-208": ErrorCode(
        "A notifier of the pipeline cannot be made.",
        "The pipeline's DAG does not run, so nothing is shipped.",
        "Correct the entry under `notify`. `shipper validate` checks notifiers.",
    ),
    "SHIP-221": ErrorCode(
        "A text is not a window, a date or a length of time.",
        _NOTHING,
        "Write START/END, for example 2026-11-01T06:00/2026-11-01T07:00.",
    ),
    "SHIP-222": ErrorCode(
        "The window is empty, or ends before it starts.",
        _NOTHING,
        "Write START/END with a start before the end.",
    ),
    "SHIP-223": ErrorCode(
        "The window covers too many folders.",
        _NOTHING,
        "Run several shorter windows.",
    ),
    "SHIP-224": ErrorCode(
        "The Airflow run has no window.",
        _NOTHING,
        "Trigger the DAG with `window_start` and `window_end`, or give the pipeline a `schedule`.",
    ),
    "SHIP-301": ErrorCode(
        "A file of the window cannot be read to its end.",
        "No record of the file counts as complete. The message says what else was sent.",
        "Repair, replace or remove the file. Run the window again. "
        "`source.on_unreadable: quarantine` lets a run pass over such files.",
    ),
    "SHIP-302": ErrorCode(
        "The storage of the source does not answer, or refuses access.",
        _NOTHING,
        "Check the path, the scheme, the network and the credentials. Run the window again.",
    ),
    "SHIP-303": ErrorCode(
        "The window has no files, and the pipeline says that this is a failure.",
        _NOTHING,
        "Check `source.path`, `source.include`, `source.settle` and the writer of the files. "
        "`source.when_empty: succeed` accepts an empty window.",
    ),
    "SHIP-304": ErrorCode(
        "The window has more files or bytes than `limits` allow.",
        _NOTHING,
        "Run a shorter window, or raise `limits.max_files` or `limits.max_bytes`.",
    ),
    "SHIP-305": ErrorCode(
        "A file was replaced after it was shipped.",
        "Nothing was sent. The records of the earlier file stay in the topic.",
        "Find out who rewrites finished files. `source.on_replaced` says what a run does with "
        "such files: `continue`, `skip` or `reship`.",
    ),
    "SHIP-306": ErrorCode(
        "A file has grown since it was shipped.",
        "Nothing was sent. The records of its first part stay in the topic.",
        "Set `source.on_replaced: continue`. The next run then ships only the rest.",
    ),
    "SHIP-307": ErrorCode(
        "A file was shipped, and other bytes were read of it than it has.",
        "Lines of the file may be missing or wrong in its topic.",
        "Compare the file with the topic. Report a bug. Re-ship the file with `--reship`: "
        "consumers will see duplicates.",
    ),
    "SHIP-308": ErrorCode(
        "A file changed while the run read it.",
        _KEPT,
        "Run the window again: the run makes a new plan. If this happens often, raise "
        "`source.settle`.",
    ),
    "SHIP-309": ErrorCode(
        "A file was shipped in part, and the pipeline's transform was changed since.",
        "Nothing was sent. The records that were shipped stay in the topic.",
        "Restore the earlier transform (`records`, `routes`, `format`, `split_size`) to finish the "
        "file, or re-ship the file with `--reship`: consumers will see duplicates.",
    ),
    "SHIP-310": ErrorCode(
        "A file was shipped in part by another version of Spark.",
        "Nothing was sent. The records that were shipped stay in the topic.",
        "Finish the file with the earlier version (`runner.python`), or re-ship the file with "
        "`--reship`: consumers will see duplicates.",
    ),
    "SHIP-311": ErrorCode(
        "No run and no ledger is known of a pipeline that `formerly` names.",
        _NOTHING,
        "Correct the name under `formerly`.",
    ),
    "SHIP-312": ErrorCode(
        "Two splits of one window have the same hash.",
        _NOTHING,
        "Ship the window in two halves.",
    ),
    "SHIP-401": ErrorCode(
        "A cluster does not answer, or answers with an error that may pass.",
        "Nothing is lost. What was committed stays and is not sent again.",
        "Check `bootstrap`, `security.protocol`, the network and the brokers. Run the window "
        "again.",
    ),
    "SHIP-402": ErrorCode(
        "A cluster refuses the user or the request.",
        "Nothing is lost. What was committed stays and is not sent again.",
        "Correct the credentials in the cluster's file, or grant the missing ACL. `shipper doctor` "
        "shows what is missing. For `INVALID_TRANSACTION_TIMEOUT`, lower "
        "`delivery.transaction_timeout` below the brokers' `transaction.max.timeout.ms`. Run the "
        "window again.",
    ),
    "SHIP-403": ErrorCode(
        "A topic does not exist, or could not be written to within `delivery.metadata_wait`.",
        "Records of this topic were not sent. Records of other topics were sent.",
        "Create the topic, or check its name, its ACLs and its leaders. Kafka shows a topic that "
        "the user may not describe as missing. Run the window again.",
    ),
    "SHIP-404": ErrorCode(
        "A topic was deleted, or deleted and created again, after records had been delivered.",
        "The delivered records are gone from the topic.",
        "To send exactly these records again, set `delivery.on_recreated: resend` and run the "
        "window again. If the records are not wanted, remove the topic's route.",
    ),
    "SHIP-405": ErrorCode(
        "`delivery.partitions` names partitions that a topic does not have.",
        _NOTHING,
        "Correct the list in the pipeline's file, or add the partitions. Every topic of the "
        "pipeline must have them, the quarantine too.",
    ),
    "SHIP-406": ErrorCode(
        "Brokers disagree about a topic's id: the metadata of one broker lag behind.",
        "Nothing more was sent.",
        "Wait until all brokers are well. Run the window again.",
    ),
    "SHIP-407": ErrorCode(
        "A TLS handshake with a broker failed.",
        _NOTHING,
        "Check the `ssl.*` settings and `security.protocol` in the cluster's file, and the "
        "broker's certificate. `shipper doctor` shows the certificate.",
    ),
    "SHIP-408": ErrorCode(
        "The Schema Registry does not answer, or its address is wrong.",
        _NOTHING,
        "Check `schema_registry` in the cluster's file. Run the window again.",
    ),
    "SHIP-409": ErrorCode(
        "The Schema Registry does not accept the schema of `records.avro`.",
        _NOTHING,
        "Correct the schema or its subject, or have the schema registered.",
    ),
    "SHIP-410": ErrorCode(
        "A topic's settings contradict what the pipeline makes of lines.",
        _NOTHING,
        "Change the topic's settings or the pipeline as the message says.",
    ),
    "SHIP-501": ErrorCode(
        "The ledger has a record that shipper did not write, or that cannot be right.",
        _NOTHING,
        "Find out who writes to the ledger's topic. `shipper ledger verify` lists the damaged "
        "records, and `shipper ledger repair` repairs one.",
    ),
    "SHIP-502": ErrorCode(
        "The ledger was written by a development version before ledger format 1.",
        "Nothing was sent. This version cannot read what was shipped.",
        "Finish open windows with the earlier version. Then begin a new ledger as the message "
        "says.",
    ),
    "SHIP-503": ErrorCode(
        "The ledger of a pipeline that has shipped before is gone.",
        "Nothing was sent. Without its ledger, a run would send everything again.",
        "Restore the topic, or grant this user the right to see it. If the ledger is lost for "
        "good, run once with `--new-ledger`.",
    ),
    "SHIP-504": ErrorCode(
        "The archived part of a ledger is missing or damaged.",
        _NOTHING,
        "Restore the archive's folder from a backup, or correct `runs_uri`.",
    ),
    "SHIP-505": ErrorCode(
        "A topic cannot be the ledger: its settings are wrong.",
        _NOTHING,
        "Alter the topic as the message says, or name another one in `ledger.topic`. The number of "
        "partitions of a topic cannot be lowered: delete the topic if no run has used it, or name "
        "another one.",
    ),
    "SHIP-506": ErrorCode(
        "The ledger's topic does not exist.",
        _UNCHANGED,
        "Create the topic, or let shipper create it with `ledger.create: true`. For a command that "
        "only reads, check the pipeline and the cluster.",
    ),
    "SHIP-507": ErrorCode(
        "A change of the ledger or of its archive was not finished.",
        "Nothing is lost. Each record counts once.",
        "Run the same command again.",
    ),
    "SHIP-508": ErrorCode(
        "Another run of the same pipeline is shipping to the cluster (it holds the lease).",
        "This run sent nothing.",
        "Wait for the other run, or stop it. Run the window again.",
    ),
    "SHIP-509": ErrorCode(
        "A later run of the same pipeline took over.",
        "This run sends nothing more. What was committed stays.",
        "Let the later run finish. Then run the window again: the run ships only what is left.",
    ),
    "SHIP-601": ErrorCode(
        "Records were not delivered.",
        _KEPT,
        f"Read the cause in the message. {_AGAIN}",
    ),
    "SHIP-602": ErrorCode(
        "A cluster did not take records within `delivery.metadata_wait`.",
        _KEPT,
        f"Check that the brokers are well. {_AGAIN}",
    ),
    "SHIP-603": ErrorCode(
        "A record is larger than its topic allows.",
        "The record's chunk was not sent. Everything committed before stays.",
        "Raise `max.message.bytes` of the topic, lower `records.max_line`, or add a `quarantine`. "
        "Run the window again.",
    ),
    "SHIP-604": ErrorCode(
        "A record cannot be parsed or has no topic, and the pipeline has no `quarantine`.",
        "The record's chunk was not sent. Everything committed before stays.",
        "Correct `records` or `routes`, or add a `quarantine`. Run the window again.",
    ),
    "SHIP-605": ErrorCode(
        "More records went to quarantine than `quarantine.max_rate` allows.",
        "All records were sent: the good ones to their topics, the others to quarantine.",
        "Look at the rejected records with `shipper quarantine list`. Correct the pipeline or the "
        "source, or raise `max_rate`. Run the window again.",
    ),
    "SHIP-606": ErrorCode(
        "The outcome of a transaction or of a write is not known yet.",
        "Nothing is counted as sent until the ledger shows it. Nothing is sent twice.",
        "Wait for the transaction timeout. Run the window again.",
    ),
    "SHIP-607": ErrorCode(
        "Every task succeeded, but the ledger does not hold all files.",
        _KEPT,
        f"{_AGAIN} If the error stays, report a bug.",
    ),
    "SHIP-608": ErrorCode(
        "The ship made no progress for `delivery.stall_timeout`.",
        _KEPT,
        "Check the storage of the files, slow regular expressions, and Spark's free cores. "
        f"{_AGAIN}",
    ),
    "SHIP-701": ErrorCode(
        "The source gate is closed: a check of the pipeline failed before the ship.",
        _NOTHING,
        "Look at the failed checks in the report. Correct the source, or skip a check for one run "
        "with `--skip-check`.",
    ),
    "SHIP-702": ErrorCode(
        "The delivery gate is closed: what was delivered does not add up, or cannot be proven.",
        "Records were sent. Do not trust the window before the difference is explained.",
        "Look at the failed checks in the report. Run the window again: nothing is sent twice, and "
        "everything is counted again.",
    ),
    "SHIP-801": ErrorCode(
        "Spark cannot be used.",
        _NOTHING,
        "Check `runner.master`, `runner.archive` (`shipper environment pack` makes it), memory and "
        "Spark's own log. Run the window again.",
    ),
    "SHIP-802": ErrorCode(
        "Jars could not be fetched or kept.",
        _NOTHING,
        "Check the network, the proxy and the cache folder (SHIPPER_CACHE). Run the window again.",
    ),
    "SHIP-803": ErrorCode(
        "A jar, or the list of jars, is not the one that was locked.",
        _NOTHING,
        "Fetch the jar again. If its checksum stays wrong, do not use the repository or its "
        "mirror.",
    ),
    "SHIP-804": ErrorCode(
        "The program of `runner.python` or `runner.spark_submit` cannot be started.",
        _NOTHING,
        "Correct the path, or leave the option out to use shipper's own environment.",
    ),
    "SHIP-805": ErrorCode(
        "The environment cannot be packed for executors.",
        "Nothing was written.",
        "Use a Python that may be moved, or install shipper on the executors and name it in "
        "`runner.python`.",
    ),
    "SHIP-806": ErrorCode(
        "Spark's executors have another version of shipper than the driver.",
        _NOTHING,
        "Install the same version everywhere, or pack a new `runner.archive`.",
    ),
    "SHIP-901": ErrorCode(
        "The index of the Shipments page is missing or cannot be used.",
        "No records are concerned: the index is a cache.",
        "Run `shipper index`. If that fails, delete the index first.",
    ),
    "SHIP-902": ErrorCode(
        "The DAG files were written by another version of shipper than the installed one.",
        "The DAGs still run.",
        "Run `shipper dags install` with the installed version.",
    ),
    "SHIP-903": ErrorCode(
        "Airflow waits longer for a run than `schedule.give_up_after` allows.",
        _KEPT,
        "Read in the log what the run waited for. The next run of the window ships the rest.",
    ),
}
_PARTS = {
    "SHIP-0": "Runs and their results",
    "SHIP-1": "Commands",
    "SHIP-2": "Configuration and windows",
    "SHIP-3": "Source files",
    "SHIP-4": "Clusters and topics",
    "SHIP-5": "Ledger",
    "SHIP-6": "Delivery",
    "SHIP-7": "Gates",
    "SHIP-8": "Spark and jars",
    "SHIP-9": "Airflow and the Shipments page",
}
"""Beginning of a part's codes → title of the part."""


def code_of(text: str | None) -> str | None:
    """Return the code with which ``text`` ends; None if it ends with none."""
    found = _AT_THE_END.search(text or "")
    return found[1] if found else None


def without_code(text: str) -> str:
    """Return ``text`` without the code at its end."""
    return _AT_THE_END.sub("", text)


def with_code(text: str, code: str | None) -> str:
    """Return ``text`` with ``code`` at its end. A text that ends with a code keeps it."""
    return text if code is None or code_of(text) else f"{text.rstrip()} [{code}]"


def reference() -> str:
    """Return docs/reference/errors.md."""
    return "\n".join(_lines())


def _wrapped(text: str) -> list[str]:
    indent = "  " if text.startswith("- ") else ""
    return textwrap.wrap(text, 100, subsequent_indent=indent, break_on_hyphens=False)


def _lines() -> Iterator[str]:
    yield "# Errors"
    yield ""
    yield "Each error message ends with a code, such as `[SHIP-303]`. A code stands for one remedy."
    yield "Results of steps, reports and `--json` hold the code in a field `code`."
    yield ""
    yield "This page is generated from `shipper/error_codes.py` by `shipper schema`."
    part = ""
    for code, error in CODES.items():
        if _PARTS[code[:6]] != part:
            part = _PARTS[code[:6]]
            yield from ("", f"## {part}")
        yield from ("", f"### {code}", "", *_wrapped(f"**{error.title}**"), "")
        yield from _wrapped(f"- *Data*: {error.data}")
        yield from _wrapped(f"- *What to do*: {error.remedy}")
    yield ""

"""``shipper new``: the first file of a pipeline, commented and valid, from flags, questions and, best, a sample of what it is to ship."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from shipper.cli.console import Config, Terminal
from shipper.cli.sample_file import SampleFile, look_at
from shipper.config import load_pipeline_alone
from shipper.config.environment import EVERYTHING
from shipper.config.rules import NAME_PATTERN
from shipper.errors import UsageError

out = Terminal()
app = typer.Typer(rich_markup_mode="markdown")


@app.command(
    epilog="Example: `shipper new web_access --sample /var/log/nginx/access.log --source 's3a://logs/web/{window_start:%Y/%m/%d/%H}/' "
    "--topic logs.web --cluster frankfurt`"
)
def new(
    name: Annotated[str, typer.Argument(help="Name of the pipeline, and of its file: letters, digits, `_` and `-`.")],
    source: Annotated[
        str | None, typer.Option(help="Folder of the files, with `{window_start:%Y/%m/%d/%H}` where its time stands.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Where the records go. It must be there when the pipeline runs.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Name of the Kafka cluster; its file is `clusters/NAME.yaml`.")] = None,
    schedule: Annotated[str, typer.Option(help="Cron, or `none` for a pipeline that is run by hand.")] = "0 * * * *",
    sample: Annotated[
        Path | None, typer.Option(help="A file as the pipeline will ship it: its format and its time column are found.")
    ] = None,
    config: Config = Path("config"),
) -> None:
    """Writes CONFIG/pipelines/NAME.yaml. Asks for what no flag says, where somebody is there to answer. Never writes over a file."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise UsageError(f"{name!r} is no name of a pipeline: small letters, digits, `_` and `-`, a letter first, at most 64")
    file = config / "pipelines" / f"{name}.yaml"
    if file.exists():
        raise UsageError(f"{file} is there already; choose another name, or edit it")
    found = look_at(sample) if sample else None
    source, topic, cluster = (
        _asked("--source", source, "Folder of the files, such as s3a://logs/web/{window_start:%Y/%m/%d/%H}/"),
        _asked("--topic", topic, "Topic"),
        _asked("--cluster", cluster, "Kafka cluster, by the name that its file is to have"),
    )
    text = pipeline_text(name, source, topic, cluster, None if schedule == "none" else schedule, found, sample)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    try:
        load_pipeline_alone(config, name, EVERYTHING)
    except Exception:
        file.unlink()  # what was asked for cannot be; the error says why
        raise
    out.say(f"{file} is written" + (f": {_in_words(found)}." if found else "."))
    if found and found.time:
        out.say(
            f"Records get the times of their lines. Topic {topic} deletes a record by its time (retention.ms), and may refuse it: "
            f"`shipper doctor {name}` compares the topic with the pipeline."
        )
    if not (there := config / "clusters" / f"{cluster}.yaml").exists():
        out.say(f"It ships to a cluster that is not described yet. {there}:\n\ncluster: {cluster}\nbootstrap: HOST:9092\n")
    seen = f"shipper preview {name} --file {shlex.quote(str(sample))}, which shows what its lines become" if sample else ""
    then = f"; {seen}" if seen else f"; then shipper plan {name} --window START/END, which sends nothing"
    out.say(f"Next: shipper validate {name}{then}.")


def _asked(flag: str, given: str | None, question: str) -> str:
    """Raises UsageError where nobody can answer."""
    if given is None and sys.stdin.isatty():
        given = str(typer.prompt(question, err=True))
    if not given:
        raise UsageError(f"{flag} is missing, and nobody is at a terminal to be asked: give {flag}")
    return given


def _in_words(found: SampleFile) -> str:
    kind = "text" if found.format == "text" else "JSON objects" if found.format == "jsonl" else f"rows of {found.format}"
    if found.json and found.format == "text":
        kind = "JSON objects, nearly all of them"
    several = "several lines that begin with a date" if found.starts_with else kind
    packed = "" if found.packed == "plain" else f", packed with {found.packed}"
    time = f"their time is {found.time.shown}" if found.time else "no time was found in them"
    return f"the sample's records are {several}{packed}; {time}"


def pipeline_text(
    name: str, source: str, topic: str, cluster: str, schedule: str | None, found: SampleFile | None, sample: Path | None
) -> str:
    """YAML. Scalars of others are quoted as JSON is, which is YAML."""
    parts = [
        "# yaml-language-server: $schema=../schema/pipeline.json\n"
        "# Every key is explained in ../schema/REFERENCE.md; an editor with a YAML language server shows the same as you type.\n"
        f"pipeline: {name}\n"
        "owner: unknown                      # who is asked when it fails\n",
        _schedule(schedule),
        "source:\n"
        "  # The folders of a window. {window_start:%Y/%m/%d/%H} is filled in for each hour that the window touches.\n"
        f"  path: {json.dumps(source)}\n"
        '  # include: "*.log*"               # by default every file; compressed ones are known by their first bytes\n'
        f"{_format(found)}"
        "  settle: 10m                       # younger files are still being written: a later run takes them\n",
        _records(found, sample),
        f"topic: {json.dumps(topic)}{' ' * max(1, 27 - len(topic))}# must be there: shipper creates no topic but its ledger\n"
        f"clusters: [{json.dumps(cluster)}]\n",
        _gates(found),
        "# What cannot be shipped (a line that is too large, say) fails the run, unless it may go to a topic of its own:\n"
        f"# quarantine: {{topic: {json.dumps(f'quarantine.{topic}')}, max_rate: 0.001}}\n",
    ]
    return "\n".join(parts)


def _schedule(cron: str | None) -> str:
    if cron is None:
        return '# schedule: "0 * * * *"           # none: it is run by hand, with a window\n'
    return (
        "# In Airflow each interval between two ticks is a window. With `start:` in place of the short form, earlier ones are run too.\n"
        f"schedule: {json.dumps(cron)}\n"
    )


def _format(found: SampleFile | None) -> str:
    if found is None or found.format == "text":
        return ""
    about = {
        "jsonl": "a line that is no object cannot be parsed",
        "csv": "the first row names the fields; a row becomes a JSON object",
    }
    said = about.get(found.format, "a row becomes a JSON object")
    dialect = f"  csv: {{delimiter: {json.dumps(found.delimiter)}}}\n" if found.format == "csv" and found.delimiter != "," else ""
    return f"  format: {found.format}{' ' * max(1, 26 - len(found.format))}# {said}\n{dialect}"


def _starts_with(found: SampleFile | None) -> str:
    return (
        f"  starts_with: {json.dumps(found.starts_with)}   # lines after it belong to it, a stack trace's say\n"
        if found and found.starts_with
        else ""
    )


def _records(found: SampleFile | None, sample: Path | None) -> str:
    made = found and found.format not in ("text", "jsonl")
    about = f"# Spark SQL. `value` is {'the row as a JSON object' if made else 'the line; it is shipped byte for byte'}.\n"
    if found and sample and found.lines:
        about += f"# By {found.lines} {'rows' if made else 'lines'} of {json.dumps(sample.name)}.\n"
    several = _starts_with(found)
    if found is None or found.time is None:
        column = "get_json_object(value, '$.time')" if found and found.json else "regexp_extract(value, '^([^ ]+)', 1)"
        return (
            f"{about}{'' if several else '# '}records:\n{several}"
            f"#   columns:\n#     time: try_to_timestamp({column})   # no time was found; name where it stands\n"
            "#   timestamp: time                 # else records have the moment at which they are sent\n#   key: …\n"
        )
    return (
        f"{about}records:\n{several}  columns:\n"
        f"    # {json.dumps(found.time.shown)}; null where a line has none. Without a zone it is taken for UTC.\n"
        f"    time: {json.dumps(found.time.sql)}\n"
        "  timestamp: time                   # of the record; where it is null, the moment at which it is sent. The topic deletes by it:\n"
        "                                    # a record older than its retention.ms is not sent. Leave it out to ship old lines\n"
        "  # key: …                          # records with the same key go to one partition\n"
    )


def _gates(found: SampleFile | None) -> str:
    lines = ["# Before the first byte leaves. `block` closes the gate, `warn` only says so.\n", "gates:\n  source:\n"]
    checks = ["{check: files, min: 1}", "{check: rows, min: 1}"]
    if found and found.json and found.format in ("text", "jsonl"):
        checks.append("{check: json, min_rate: 0.99, severity: warn}")
    if found and found.time:
        checks.append("{check: not_null, column: time, min_rate: 0.99, severity: warn}")
    return "".join([*lines, *(f"    - {check}\n" for check in checks)])

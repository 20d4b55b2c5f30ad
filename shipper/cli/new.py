"""``shipper new``: the first file of a pipeline, commented and valid, from flags, questions and,
best, a sample of its lines."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer
from jinja2 import Environment

from shipper.cli.console import Config, new_app, out
from shipper.cli.sample_file import SampleFile, look_at
from shipper.config.environment import EVERYTHING
from shipper.config.load import load_pipeline_alone
from shipper.config.rules import NAME_PATTERN
from shipper.errors import UsageError
from shipper.report.markup import words
from shipper.report.report_schema import schema_texts
from shipper.whole_files import output_file, refuse_existing

app = new_app("new")


Name = Annotated[
    str,
    typer.Argument(help="Name of the pipeline, and of its file: letters, digits, `_` and `-`."),
]
Source = Annotated[
    str | None,
    typer.Option(
        help="Folder of the files, with a placeholder such as `{window_start:%Y/%m/%d/%H}` for its "
        "time."
    ),
]
Topic = Annotated[
    str | None,
    typer.Option(help="Topic of the records. It must exist when the pipeline runs."),
]
OfCluster = Annotated[
    str | None,
    typer.Option(help="Name of the Kafka cluster; its file is `clusters/NAME.yaml`."),
]
Schedule = Annotated[str, typer.Option(help="Cron, or `none` for a pipeline that is run by hand.")]
Sample = Annotated[
    Path | None,
    typer.Option(
        help="A file such as the pipeline will ship: its format and its time column are detected."
    ),
]


@app.command(
    epilog="Example: `shipper new web_access --sample /var/log/nginx/access.log --source "
    "'s3a://logs/web/{window_start:%Y/%m/%d/%H}/' --topic logs.web --cluster frankfurt`"
)
def new(
    name: Name,
    source: Source = None,
    topic: Topic = None,
    cluster: OfCluster = None,
    schedule: Schedule = "0 * * * *",
    sample: Sample = None,
    config: Config = Path("config"),
) -> None:
    """Write CONFIG/pipelines/NAME.yaml. Ask at the terminal for what the options do not say. Never
    overwrite a file."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise UsageError(
            f"{name!r} is not a valid name of a pipeline. Use small letters, digits, `_` and "
            "`-`, begin with a letter, and use at most 64 characters."
        )
    file = config / "pipelines" / f"{name}.yaml"
    refuse_existing(file)
    found = look_at(sample) if sample else None
    source, topic, cluster = _asked(
        {
            "--source": (
                source,
                "Folder of the files, such as s3a://logs/web/{window_start:%Y/%m/%d/%H}/",
            ),
            "--topic": (topic, "Topic"),
            "--cluster": (cluster, "Kafka cluster, by the name that its file is to have"),
        }
    )
    cron = None if schedule == "none" else schedule
    text = _pipeline_text(
        found, sample, name=name, source=source, topic=topic, cluster=cluster, schedule=cron
    )
    with output_file(file) as part:
        part.write_text(text, encoding="utf-8")
    try:
        load_pipeline_alone(config, name, EVERYTHING)
    except Exception:
        file.unlink()  # such a pipeline is not possible; the error says why
        raise
    out.say(f"{file} is written" + (f": {_in_words(found)}." if found else "."))
    _write_schemas(config / "schema")
    if found and found.time:
        out.say(
            f"Each record gets the time of its line. Topic {topic} deletes records by their time "
            f"(retention.ms), and may reject them: `shipper doctor {name}` compares the topic "
            "with the pipeline."
        )
    _say_next(name, config / "clusters" / f"{cluster}.yaml", sample)


def _say_next(name: str, cluster: Path, sample: Path | None) -> None:
    if not cluster.exists():
        out.say(
            f"The cluster has no file yet. Write {cluster}:\n\ncluster: {cluster.stem}\n"
            "bootstrap: HOST:9092\n"
        )
    then = f"then shipper plan {name} --window START/END, which sends nothing"
    if sample:
        then = (
            f"shipper preview {name} --file {shlex.quote(str(sample))} --save-test, which shows "
            f"what its lines become, and keeps that as a first test (shipper test {name})"
        )
    out.say(f"Next: shipper validate {name}; {then}.")


def _asked(flags: Mapping[str, tuple[str | None, str]]) -> list[str]:
    """Return a value for each flag, in order: the given one, or the answer to a question.
    ``flags``: flag → (given value, question). Raises UsageError with all missing flags if no person
    can answer."""
    missing = [flag for flag, (given, _) in flags.items() if not given]
    if missing and not sys.stdin.isatty():
        what = f"{words(missing)} {'are' if missing[1:] else 'is'} missing"
        raise UsageError(
            f"{what}, and there is no terminal at which to ask. Give {words(missing)}."
        )
    return [given or str(typer.prompt(question, err=True)) for given, question in flags.values()]


def _in_words(found: SampleFile) -> str:
    kind = {"text": "text", "jsonl": "JSON objects"}.get(found.format, f"rows of {found.format}")
    if found.json and found.format == "text":
        kind = "JSON objects, nearly all of them"
    if found.starts_with:
        kind = "several lines that begin with a date"
    packed = "" if found.packed == "plain" else f", packed with {found.packed}"
    packed += f", in {found.encoding}" if found.encoding else ""
    time = f"their time is {found.time.shown}" if found.time else "no time was found in them"
    return f"the sample's records are {kind}{packed}; {time}"


def _write_schemas(folder: Path) -> None:
    """Write the schemas that the file names, if nobody has yet."""
    if not folder.exists():
        for name, text in schema_texts().items():
            with output_file(folder / name) as part:
                part.write_text(text, encoding="utf-8")
        out.say(f"{folder} is written too: the schemas for editors, and REFERENCE.md.")


def _pipeline_text(found: SampleFile | None, sample: Path | None, **asked: str | None) -> str:
    """Return the pipeline's file. Scalars of others are quoted as JSON is, which is YAML."""
    environment = Environment(trim_blocks=True, keep_trailing_newline=True)
    environment.filters["json"] = json.dumps
    template = environment.from_string(
        resources.files(__package__).joinpath("new.yaml.j2").read_text(encoding="utf-8")
    )
    rows = found is not None and found.format not in ("text", "jsonl")
    time, starts_with = (found.time, found.starts_with) if found else (None, "")
    return template.render(
        found=found,
        rows=rows,
        time=time,
        starts_with=starts_with,
        sample=sample.name if sample else "",
        **asked,
    )

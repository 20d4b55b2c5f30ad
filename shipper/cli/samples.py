"""Samples of tests, and the process with Spark that reads them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from shipper import runner
from shipper.config.load import references
from shipper.config.runner_options import Runner
from shipper.errors import ConfigError, StepResultError, UsageError
from shipper.report.preview_result import ReadSample, SampleToRead


def read_samples(config_dir: Path, samples: Sequence[SampleToRead]) -> list[ReadSample]:
    """Read samples as a run would, by Spark on this machine. Takes some seconds, however many there
    are. Raises ConfigError for SQL that is wrong, StepResultError if Spark ends."""
    with tempfile.TemporaryDirectory(prefix="shipper-test-") as folder:
        asked = [
            sample.model_copy(update=_placed(sample.content, Path(folder, str(number))))
            for number, sample in enumerate(samples)
        ]
        found = _ask_spark(config_dir, asked)
    wrong = dict.fromkeys(one.error for one in found if one.wrong and one.error)
    if wrong:
        raise ConfigError("\n".join(wrong), code="SHIP-205")
    return found


def _placed(content: bytes | Path, file: Path) -> dict[str, Any]:
    """Return where the content lies: in ``file``, if it is text."""
    if isinstance(content, Path):
        return {"file": str(content.absolute())}
    file.write_bytes(content)
    return {"file": str(file), "is_text": True}


def _ask_spark(config_dir: Path, asked: Sequence[SampleToRead]) -> list[ReadSample]:
    """Ask Spark, by this very Python, wherever the pipelines run."""
    if why := runner.why_no_pyspark():
        raise UsageError(why, code="SHIP-110")
    command = [sys.executable, "-m", "spark_jobs", "--config", str(config_dir), runner.SAMPLES]
    done = subprocess.run(
        command,
        env=runner.environment(Runner(), _variables(config_dir, asked)),
        input=json.dumps([one.model_dump() for one in asked]),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    try:
        return [ReadSample.model_validate(one) for one in json.loads(done.stdout)]
    except ValueError as error:
        raise StepResultError(
            "the process that reads the samples "
            f"{runner.how_it_ended(runner.exit_code(done.returncode))} and left no result. Its "
            "last lines above say why. If Spark is missing there, install shipper[spark]."
        ) from error


def _variables(config_dir: Path, asked: Iterable[SampleToRead]) -> set[str]:
    """Return the names of the variables that the pipelines refer to."""
    return {
        found.name
        for pipeline in {one.pipeline for one in asked}
        for found in references(config_dir, pipeline)
        if found.kind == "environment"
    }

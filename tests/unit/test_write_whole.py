"""Results are written whole, also where a rename leaves alone what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from shipper.report.run_folder import write_whole


class SaysNothing(LocalFileSystem):
    """As WebHDFS: its RENAME answers false, and fsspec does not look at the answer."""

    protocol = "says-nothing"

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        if not Path(path2).exists():
            Path(path1).rename(path2)


class Refuses(LocalFileSystem):
    """As HDFS through Arrow."""

    protocol = "refuses"

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        if Path(path2).exists():
            raise OSError(f"cannot rename {path1} to {path2}")
        Path(path1).rename(path2)


class Keeps(SaysNothing):
    """Nothing can be removed either."""

    protocol = "keeps"

    def rm_file(self, path: str) -> None:
        pass


for kind in (SaysNothing, Refuses, Keeps):
    fsspec.register_implementation(kind.protocol, kind, clobber=True)


@pytest.mark.parametrize("protocol", ["file", "says-nothing", "refuses"])
def test_a_later_result_replaces_the_one_before_it(tmp_path: Path, protocol: str) -> None:
    for text in ("failed\n", "succeeded\n"):
        write_whole(f"{protocol}://{tmp_path}/run/plan.json", text)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["plan.json"]
    assert (tmp_path / "run" / "plan.json").read_text() == "succeeded\n"


def test_a_result_that_cannot_replace_the_one_before_it_is_an_error(tmp_path: Path) -> None:
    write_whole(f"keeps://{tmp_path}/run/plan.json", "failed\n")
    with pytest.raises(OSError, match="cannot be replaced"):
        write_whole(f"keeps://{tmp_path}/run/plan.json", "succeeded\n")

"""What the demo prints."""

import datetime as dt
import io

from rich.console import Console
from shipper_tools.demo.config import write_config
from shipper_tools.demo.demo import show_yaml


def test_the_pipeline_can_be_copied_as_it_is_printed(tmp_path):
    start = dt.datetime(2026, 11, 1, 6, tzinfo=dt.UTC)
    text = write_config(tmp_path, bootstrap="127.0.0.1:1", endpoint="http://x:1", start=start)
    assert max(map(len, text.splitlines())) > 80
    out = io.StringIO()
    show_yaml(Console(file=out, width=80), text)
    assert out.getvalue().rstrip() == text.rstrip()

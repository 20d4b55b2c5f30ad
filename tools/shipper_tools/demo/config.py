"""The configuration of the demo: what its user would have written by hand."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from shipper.config.schema import generated_files
from shipper.whole_files import write_whole
from shipper_tools.dev.s3 import ACCESS_KEY

PIPELINE = "shop_logs"
CLUSTER = "demo"
BUCKET = "shop-logs"
#: Where the pipeline's file says that the S3 server's secret key is.
SECRET_VARIABLE = "DEMO_S3_SECRET_KEY"

#: Topic → partitions.
TOPICS = {
    "errors": 1,
    "logs.web": 4,
    "logs.payments": 2,
    "logs.system": 1,
    "logs.search": 1,
}

_PIPELINE_YAML = """\
# yaml-language-server: $schema=../schema/pipeline.json
pipeline: shop_logs
owner: shop-team
description: What the shop's four services wrote, hour by hour
schedule: {{cron: "0 * * * *", start: "{start:%Y-%m-%dT%H:%M}", catchup: true}}
source:
  path: s3a://{bucket}/{{window_start:%Y-%m-%d}}/{{window_start:%H}}/
  s3: {{endpoint: "{endpoint}", path_style: true, access_key: {access_key}, secret_key: "${{{secret}}}"}}
  include: "*.log*"
  settle: 0s                 # the demo's files are finished when the scheduler starts
  when_empty: succeed        # the demo writes one hour of logs and no other
records:
  columns: {{service: "regexp_extract(file_name, '^[a-z]+', 0)"}}
  headers: {{file: file_name}}
routes:
  - {{topic: errors, when: value RLIKE r'\\b(ERROR|FATAL|error|fatal)\\b'}}
  - {{topic: "logs.{{service}}", topics: [{topics}]}}
clusters: [demo]
runner: {{cores: 2, driver_memory: 1g}}
"""  # noqa: E501

_CLUSTER_YAML = """\
# yaml-language-server: $schema=../schema/cluster.json
cluster: demo
bootstrap: {bootstrap}
"""


def write_config(folder: Path, *, bootstrap: str, endpoint: str, start: dt.datetime) -> str:
    """Write the pipeline, its cluster and what editors complete from below ``folder``. Return the
    pipeline's text.

    ``start`` (a whole hour, UTC) is where its schedule begins: with the hour before now, exactly
    one window is due.
    """
    pipeline = _PIPELINE_YAML.format(
        start=start,
        bucket=BUCKET,
        endpoint=endpoint,
        access_key=ACCESS_KEY,
        secret=SECRET_VARIABLE,
        topics=", ".join(topic for topic in TOPICS if topic.startswith("logs.")),
    )
    cluster = _CLUSTER_YAML.format(bootstrap=bootstrap)
    for path, text in (
        (f"pipelines/{PIPELINE}.yaml", pipeline),
        (f"clusters/{CLUSTER}.yaml", cluster),
        *((f"schema/{name}", text) for name, text in generated_files().items()),
    ):
        write_whole(str(folder / path), text)
    return pipeline

"""Place of a pipeline's Spark job (`runner`)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictInt, field_validator, model_validator

from shipper.config.properties import PINNED_PATTERN, fault_of_setting
from shipper.config.rules import ARCHIVE_PATTERN, MEMORY_PATTERN, THE_KEY, Model, refuse

_LOGIN = ("spark.kerberos.principal", "spark.kerberos.keytab")


class Runner(Model):
    """Place of the Spark job. To scale out, use Spark's cluster managers."""

    kind: Literal["local", "standalone", "yarn", "kubernetes"] = "local"
    """`local`: in one process on the machine of the Airflow worker. The others: Spark in client
    mode on that cluster manager."""
    cores: StrictInt = Field(default=2, ge=1, le=4096)
    """`local`: threads. Otherwise the number of Spark tasks that ship side by side; give Spark that
    many cores."""
    master: str | None = None
    """Spark master URL, for `standalone` (`spark://host:7077`) and `kubernetes`
    (`k8s://https://…`)."""
    python: str | None = None
    """Python of an environment with `shipper[spark]`, on the driver and, without `archive`, at the
    same path on the executors. Default: the one that runs shipper."""
    archive: str | None = Field(
        default=None,
        pattern=ARCHIVE_PATTERN,
        examples=["/opt/shipper/tasks.tar.gz", "hdfs://nn1:8020/shipper/tasks.tar.gz"],
    )
    """Archive of the tasks' environment, with `bin/python`, as `venv-pack` makes it: an absolute
    path on the driver's machine, or a URI that Spark can read. Spark copies it to every executor,
    which then needs no shipper of its own. Pack it again when shipper or its Python changes."""
    spark_submit: str | None = None
    """Path of a `spark-submit`. Default: `python`'s own pyspark starts Spark."""
    driver_memory: str = Field(default="2g", pattern=MEMORY_PATTERN)
    """Heap of Spark's driver (which is everything in `local`)."""
    conf: dict[str, str] = Field(
        default_factory=dict,
        json_schema_extra={
            "propertyNames": {"not": {"pattern": PINNED_PATTERN}, "pattern": r"^spark\."}
        },
    )
    """Further Spark settings (`spark.…`). Do not write secrets here: Spark shows the settings.
    Settings of Spark SQL that may change what a line becomes (`spark.sql.ansi.enabled`,
    `spark.sql.legacy.…`) count as part of the transform, as `records` does."""

    @model_validator(mode="after")
    def _kerberos_can_work(self) -> Runner:
        late = "spark.hadoop.hadoop.security.authentication"
        login = [name for name in self.conf if name in _LOGIN]
        is_on = self.conf.get(late, "").lower() == "kerberos"
        if self.kind == "standalone" and login and self.spark_submit:
            raise ValueError(
                f"`conf` has {login[0]}, by which spark-submit does not log in with `kind: "
                "standalone`; remove `spark_submit`, or use `kinit`"
            )
        if is_on and login:
            raise ValueError(
                f"`conf` has {login[0]} and {late}, which Spark reads only after the login by "
                "keytab, and skips the login; write it into core-site.xml, and name its folder by "
                "HADOOP_CONF_DIR"
            )
        return self

    @model_validator(mode="after")
    def _master_fits_kind(self) -> Runner:
        needs = self.kind in ("standalone", "kubernetes")
        if needs and self.master is None:
            raise ValueError(f"`kind: {self.kind}` needs `master`")
        if not needs and self.master is not None:
            raise ValueError(f"`master` and `kind: {self.kind}` contradict each other; remove one")
        if self.archive is not None and self.kind == "local":
            raise ValueError("`archive` and `kind: local` contradict each other; remove one")
        return self

    @field_validator("conf")
    @classmethod
    def _spark_conf(cls, value: dict[str, str]) -> dict[str, str]:
        refuse(((key, THE_KEY), why) for key in value if (why := fault_of_setting(key)))
        return value

    @property
    def spark_master(self) -> str:
        """Master URL. `local[n,4]`: without the second number local Spark never retries a failed
        task."""
        if self.kind == "local":
            return f"local[{self.cores},4]"
        return self.master or "yarn"

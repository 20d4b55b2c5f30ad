"""Configuration: the models that check a user's files and describe them.

A name is imported from its module when it is first used: each of Spark's Python processes needs the
models, and none of them needs YAML or the schemas, which take 0.3 s to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shipper.config.cluster import Cluster
    from shipper.config.load import (
        LoadedConfig,
        load_all,
        load_cluster,
        load_pipeline,
        load_pipeline_alone,
        load_platform,
        locate,
    )
    from shipper.config.pipeline import Pipeline
    from shipper.config.rules import resolve_uri
    from shipper.config.schema import generated_files
    from shipper.config.yaml_file import ConfigFault

__all__ = [
    "Cluster",
    "ConfigFault",
    "LoadedConfig",
    "Pipeline",
    "generated_files",
    "load_all",
    "load_cluster",
    "load_pipeline",
    "load_pipeline_alone",
    "load_platform",
    "locate",
    "resolve_uri",
]

_MODULES = {
    "Cluster": "cluster",
    "ConfigFault": "yaml_file",
    "Pipeline": "pipeline",
    "generated_files": "schema",
    "resolve_uri": "rules",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'load')}"), name)

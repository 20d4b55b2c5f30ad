"""The configuration: what a user writes, checked, as models, and described.

Names come from their modules when they are asked for: each of Spark's Python processes needs the models, and none of them YAML or
documents, which take 0.3 s to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shipper.config.documents import generated_files
    from shipper.config.faults import ConfigFault
    from shipper.config.loading import LoadedConfig, load_all, load_cluster, load_pipeline, load_platform, locate
    from shipper.config.models import Cluster, Pipeline
    from shipper.config.uris import resolve_uri

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
    "generated_files": "documents",
    "ConfigFault": "faults",
    "Cluster": "models",
    "Pipeline": "models",
    "resolve_uri": "uris",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'loading')}"), name)

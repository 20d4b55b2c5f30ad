"""The configuration: what a user writes, checked, as models, and described."""

from shipper.config.documents import generated_files
from shipper.config.faults import ConfigFault
from shipper.config.loading import LoadedConfig, load_all, load_cluster, load_pipeline, locate, resolve_uri
from shipper.config.models import Cluster, Pipeline

__all__ = [
    "Cluster",
    "ConfigFault",
    "LoadedConfig",
    "Pipeline",
    "generated_files",
    "load_all",
    "load_cluster",
    "load_pipeline",
    "locate",
    "resolve_uri",
]

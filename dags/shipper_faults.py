"""What is wrong in the configuration, where people look for it: as an import error above Airflow's
list of DAGs, until it is mended.

It makes no DAG. `shipper_dags.py` makes one for every file all the same, broken or not, and leaves
here what it found, so that an import error harms none of them.
"""

from __future__ import annotations

from shipper_factory.faults import raise_faults
from shipper_factory.place import config_dir

raise_faults(config_dir())

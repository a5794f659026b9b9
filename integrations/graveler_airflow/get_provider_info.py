"""The metadata of this provider for Airflow; the module does not import Airflow."""

from importlib.resources import files
from typing import Any

import yaml  # type: ignore[import-untyped]


def get_provider_info() -> dict[str, Any]:
    """Return ``provider.yaml``, for the entry point ``apache_airflow_provider``."""
    text = files("graveler_airflow").joinpath("provider.yaml").read_text("utf-8")
    return dict(yaml.safe_load(text))

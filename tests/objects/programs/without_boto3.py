"""Opens an S3 store where boto3 is not installed, and prints the error."""

import sys
from typing import Any

from graveler.errors import MissingDependencyError
from graveler.objects.registry import open_store

modules: dict[str, Any] = sys.modules
modules["boto3"] = modules["botocore"] = None
try:
    open_store("s3://bucket")
except MissingDependencyError as error:
    print(error)

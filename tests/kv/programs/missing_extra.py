"""Opens a store whose module is not installed, and prints the error: ``URI MODULE``."""

import sys
from typing import Any

from graveler.errors import MissingDependencyError
from graveler.kv.registry import open_kv

modules: dict[str, Any] = sys.modules
modules[sys.argv[2]] = None
try:
    open_kv(sys.argv[1])
except MissingDependencyError as error:
    print(error)

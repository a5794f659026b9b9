"""Puts a stream without an end: ``FOLDER VERB``."""

import sys
from pathlib import Path

from graveler.objects.local import LocalStore


class Endless:
    def read(self, size):
        print("reading", flush=True)
        return b"x" * size


getattr(LocalStore(Path(sys.argv[1])), sys.argv[2])("a/b", Endless())

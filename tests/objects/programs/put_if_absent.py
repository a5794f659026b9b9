"""Puts fifty keys if they are absent, and prints which it stored: ``FOLDER NAME``."""

import sys
from pathlib import Path

from graveler.objects.local import LocalStore

store = LocalStore(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(50):
    print(number, store.put_if_absent(f"f{number}/a", sys.argv[2].encode() * 1000), flush=True)

"""Runs ``graveler log -n 1`` and prints the modules that are loaded then."""

import sys
from contextlib import suppress

from graveler.cli.main import main

sys.argv = ["graveler", "log", "-n", "1"]
with suppress(SystemExit):
    main()
print(sorted(sys.modules))

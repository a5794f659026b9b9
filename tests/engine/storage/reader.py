"""A process that cannot write where permission bits forbid it, even if root runs the tests.

It calls the command line once for each line of standard input, which is JSON. For each call it
prints [exit code, standard output, standard error] as JSON.
"""

import ctypes
import json
import os
import sys

_DROP_FROM_BOUND, _OVERRIDE, _SEARCH, _OWNER = 24, 1, 2, 3


def drop_privileges():
    """Restart without the capabilities that let root ignore permission bits."""
    if os.geteuid() != 0 or "--powerless" in sys.argv:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (_OVERRIDE, _SEARCH, _OWNER):
        if libc.prctl(_DROP_FROM_BOUND, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "cannot give up a capability")
    again = [sys.executable, "-W", "error", "-m", __spec__.name, "--powerless"]
    os.execv(sys.executable, again)  # noqa: S606 - it starts this program


def main():
    from typer.testing import CliRunner

    from graveler.cli.main import load

    app = load()

    for line in sys.stdin:
        result = CliRunner().invoke(app, json.loads(line))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        said = [result.exit_code, result.stdout, result.stderr]
        sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    drop_privileges()
    main()

"""The Python interpreter of a page. It runs the code from its standard input in one namespace.

A request is a line of JSON with `file`, `line` and `code`. The reply is a line of JSON with the
printed output and, if the code failed, the traceback. Both have the page's own line numbers.
"""

import ast
import contextlib
import io
import json
import os
import sys
import traceback


def main() -> None:
    """Serve until the standard input ends."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path[0] = ""
    names: dict[str, object] = {"__name__": "__main__"}
    for request in sys.stdin:
        replies.write(json.dumps(_run(names, **json.loads(request))) + "\n")
        replies.flush()


def _run(names: dict[str, object], file: str, line: int, code: str) -> dict[str, str]:
    printed, failure = io.StringIO(), ""
    with contextlib.redirect_stdout(printed):
        try:
            tree = ast.increment_lineno(ast.parse(code, file), line - 1)
            exec(compile(tree, file, "exec"), names)  # noqa: S102 - our own page
        except BaseException:  # noqa: BLE001 - the test gets it
            failure = traceback.format_exc()
    return {"printed": printed.getvalue(), "failure": failure}


if __name__ == "__main__":
    main()

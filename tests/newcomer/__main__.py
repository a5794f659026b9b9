"""Follows guides word for word, in fresh folders: ``python -m tests.newcomer [NAME ...]``.

Blocks of a guide with the mark `run: newcomer` are what its reader types, from top to bottom, in
one shell: a new virtual environment, services, a first run. The folder ``graveler`` beside them is
a clone of the repository. The output is printed. The last command of a guide fails if the reader
does not get what the guide promises.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

from tests.docs.pages import ROOT, Page, pages
from tests.real.chaos.processes.reaper import keep

_KEPT = (
    "PATH",
    "LANG",
    "TERM",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "PIP_INDEX_URL",
    "SSL_CERT_FILE",
)


def script_of(page: Page) -> str:
    """Return the input of a page's reader, as a script that stops at the first failure."""
    lines = ["set -euo pipefail"]
    for block in page.of("newcomer"):
        if block.file:
            lines += [
                f"mkdir -p \"$(dirname '{block.file}')\"",
                f"cat > '{block.file}' <<'END OF FILE'\n{block.text}END OF FILE",
            ]
        else:
            lines += [f"echo '== {block.heading}'", block.text]
    return "\n".join(lines) + "\n"


def follow(page: Page) -> int:
    """Follow a guide in a new folder; return the status of its script."""
    folder = Path(tempfile.mkdtemp(prefix="graveler-newcomer-"))
    clone = ["git", "clone", "--quiet", str(ROOT), str(folder / "graveler")]
    subprocess.run(clone, check=True)
    # in a clean environment, like that of a new login
    own = Path(sys.prefix) / "bin"
    variables = {name: os.environ[name] for name in _KEPT if name in os.environ}
    variables["PATH"] = ":".join(
        place for place in variables["PATH"].split(":") if Path(place) != own
    )
    begun = monotonic()
    print(f"==== {page.name} in {folder}", flush=True)
    words = [f"{name}={value}" for name, value in {**variables, "HOME": str(folder)}.items()]
    # it kills the services that the guide has started
    status = keep(["env", "-i", "-C", str(folder), *words, "bash", "-c", script_of(page)])
    if status:
        for log in sorted(folder.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text('utf-8', 'replace')[-2000:]}")
        print(f"left behind: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"==== {page.name}: status {status} after {monotonic() - begun:.0f} s", flush=True)
    return status


def main(names: list[str]) -> int:
    """Follow the guides whose names contain one of the words, or all guides without words."""
    guides = [page for page in pages() if page.of("newcomer")]
    chosen = [page for page in guides if not names or any(name in page.name for name in names)]
    if not chosen:
        print(f"no guide has {names} in its name: {[page.name for page in guides]}")
        return 2
    return max(follow(page) for page in chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

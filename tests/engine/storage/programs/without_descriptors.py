"""Makes calls on a lake with few free descriptors; prints errors without a name or the reason."""

import os
import resource
import sys
from pathlib import Path

import graveler
from graveler.errors import GravelerError
from graveler.lake.factory import init

FREE = 12
_SOFT = 256

CALLS = {
    "open": lambda folder, _: graveler.open(folder / "lake").close(),
    "put": lambda _, repo: repo.branch("main").put("a", b"1"),
    "put_file": lambda folder, repo: repo.branch("main").put("b", folder / "file"),
    "put_many": lambda _, repo: repo.branch("main").put_many([("c", b"1"), ("d", b"1")], threads=2),
    "commit": lambda _, repo: repo.branch("main").commit("more", allow_empty=True),
    "get": lambda _, repo: repo.ref("main").get("x"),
    "download": lambda folder, repo: repo.ref("main").download(
        "", folder / f"out{os.urandom(4).hex()}"
    ),
    "upload": lambda folder, repo: repo.branch("main").upload(folder / "in", "in/"),
    "fsck": lambda _, repo: repo.fsck(objects="checksum"),
    "gc": lambda _, repo: repo.gc.run(),
    "import": lambda folder, repo: repo.branch("main").import_(str(folder / "in"), "imported/"),
    "run": lambda _, repo: repo.runs.open("hour 05").commit_staged(),
    "init": lambda folder, _: init(folder / f"other{os.urandom(4).hex()}").close(),
}


def with_free(free, call):
    """Make a call with that many free descriptors; return its error."""
    taken = []
    try:
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            for descriptor in taken[len(taken) - free :]:
                os.close(descriptor)
            del taken[len(taken) - free :]
        call()
    except Exception as error:
        return error
    finally:
        for descriptor in taken:
            os.close(descriptor)
    return None


def shown(error):
    """Return the kind and the text of an error."""
    return f"{type(error).__name__}: {error}"


folder = Path(sys.argv[1])
(folder / "file").write_bytes(b"1")
(folder / "in").mkdir()
(folder / "in" / "file").write_bytes(b"1")
resource.setrlimit(resource.RLIMIT_NOFILE, (_SOFT, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
bad = set()
with init(folder / "lake", kv_uri=sys.argv[2]) as lake:
    repo = lake.create_repository("flights")
    repo.links.allow(str(folder / "in"))
    repo.branch("main").put("x", b"1")
    repo.branch("main").commit("x")
    for name, call in CALLS.items():
        for free in range(FREE):
            with graveler.open(folder / "lake") as fresh:
                found = with_free(free, lambda: call(folder, fresh.repository("flights")))  # noqa: B023
            if found is None:
                break
            if not isinstance(found, GravelerError):
                bad.add(f"{name}: {shown(found)}")
            elif "open files" not in str(found):
                bad.add(f"{name}, without the reason: {shown(found)}")
    sys.stdout.flush()
    if os.fork() == 0:  # a child opens its own connections
        found = with_free(0, lambda: list(repo.branches()))
        os._exit(0 if isinstance(found, GravelerError) else 1)
    if os.wait()[1]:
        bad.add("a bare error in a child")
print(*sorted(bad), sep="\n", end="")

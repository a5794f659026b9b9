"""Works with a lake as one of the users of a group: ``FOLDER USER GROUP``.

Only root can become another user. Without root, all users are the one who runs the tests. Another
user may not be able to read the interpreter's modules, so work in another lake loads them before.
"""

import os
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import graveler


def work(lake: graveler.Lake, user: str) -> list[str]:
    """Publish, commit and collect in a lake; return the paths that all users published."""
    name = "flights"
    there = name in lake.repositories()
    repo = lake.repository(name) if there else lake.create_repository(name)
    main = repo.branch("main")
    with repo.run(f"run-{user}") as run:
        run.put("shared", user.encode())
        run.put(f"by/{user}", b"1")
    main.put(f"staged/{user}", os.urandom(8))
    main.commit(user)
    assert main.get("shared") == user.encode()
    repo.gc.mark(grace=timedelta(0), window=timedelta(0))
    return sorted(entry.path for entry in main.list("by/"))


folder, user, group = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with TemporaryDirectory() as other:
    graveler.init(other, kv_uri=sys.argv[4]).close()
    with graveler.open(other) as lake:
        work(lake, user)
if os.geteuid() == 0:
    os.setgroups([group])
    os.setgid(int(user))  # the user's own group is another
    os.setuid(int(user))
os.umask(0o077)
with graveler.open(folder) as lake:
    print(*work(lake, user))

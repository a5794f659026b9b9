"""Makes calls that use threads, in a thread that outlives the main one, or as the program exits."""

import atexit
import logging
import sys
import traceback
from pathlib import Path
from threading import Thread, main_thread

from graveler.lake.factory import init
from tests.harness.worlds import ScriptedWorld

COUNT = 12


def calls(repo, folder):
    """Make every call that uses threads."""
    main = repo.branch("main")
    main.put_many(((f"a/{n:02}", b"x" * n) for n in range(COUNT)), threads=4)
    main.commit("put_many")
    assert len(list(main.get_many((f"a/{n:02}" for n in range(COUNT)), threads=4))) == COUNT
    main.download("a/", folder, threads=4)
    assert repo.fsck(objects="checksum").sound
    repo.gc.run(window="0s", grace="0s")
    with repo.run("hour 05") as run, run.step("load") as step:
        step.put("d", b"1")


def work(repos):
    """Make the calls in all repositories."""
    try:
        for number, repo in enumerate(repos):
            calls(repo, Path(sys.argv[2]) / f"{number}")
        print("done")
    except BaseException:
        traceback.print_exc()


def late(repos):
    """Make the calls after the main thread has ended."""
    main_thread().join()
    work(repos)


# Python 3.12 starts no thread after the main one: graveler then warns that no thread renews the lease
logging.getLogger("graveler.runs.attempt").setLevel(logging.ERROR)
lake = init(Path(sys.argv[2]) / "lake")
opened = [ScriptedWorld().repo(threads=4), lake.create_repository("flights")]
if sys.argv[1] == "exit":
    atexit.register(work, opened)
else:
    Thread(target=late, args=(opened,)).start()

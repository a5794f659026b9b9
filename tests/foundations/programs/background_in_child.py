"""Runs a task in a background thread of a forked child."""

import os

from graveler.base.background import OneThread

background = OneThread()
background.run(lambda: None)
background.close()
background.run(lambda: None)
child = os.fork()
if child == 0:
    background.run(lambda: print("done", end="", flush=True))
    background.close()
    os._exit(0)
background.close()
raise SystemExit(os.waitpid(child, 0)[1])

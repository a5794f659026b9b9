"""Forks while a signal handler raises, until 25 fork hooks are interrupted."""

import os
import random
import signal
import sys
import threading

from graveler.base import forks
from graveler.base.clock import SystemClock


class Watcher:
    notified = False

    def after_fork_in_child(self):
        self.notified = True


def interrupt(*_):
    raise TimeoutError


def call(passed):
    with forks.held_off:
        passed.append(True)


def forked(seconds):
    """Fork with an alarm after `seconds`; return whether there is a child."""
    parent = os.getpid()
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        child = os.fork()
        if child == 0:
            os._exit(0 if watcher.notified else 1)
        # A wait in one call: a lock that a signal interrupts may raise another error.
        SystemClock().sleep(0.01)
    except TimeoutError:
        if os.getpid() != parent:
            os._exit(0 if watcher.notified else 1)
    try:
        assert os.waitpid(-1, 0)[1] == 0
    except ChildProcessError:  # the signal came before the fork
        return False
    return True


watcher = Watcher()
memory = bytearray(100 << 20)  # makes a fork slower
lost: list[BaseException | None] = []
draw = random.Random(7)
forks.watch(watcher)
sys.unraisablehook = lambda hook: lost.append(hook.exc_value)
signal.signal(signal.SIGALRM, interrupt)
rounds = 0
while len(lost) < 25 and rounds < 3000:
    rounds += 1
    if not forked(draw.uniform(0.0001, 0.006)):
        continue
    passed: list[bool] = []
    thread = threading.Thread(target=call, args=(passed,), daemon=True)
    thread.start()
    thread.join(15)  # shorter than a call's longest wait for a fork
    assert passed, lost
print("hooks cut short" if lost else "no hook was cut short", flush=True)
os._exit(0)

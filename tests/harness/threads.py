"""Threads that race for state."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_THREADS = 4


def raced(call: Callable[[int], object]) -> None:
    """Make the call in four threads, with their numbers, while the interpreter switches often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(call, range(_THREADS)))
    finally:
        sys.setswitchinterval(before)

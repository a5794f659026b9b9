"""Files mapped into memory, without a descriptor for each of them.

Before Python 3.13 an `mmap` of a file keeps a copy of its descriptor. A process that reads a lake of
some thousand ranges would use up its descriptors. Code that calls ``select``, such as the callback
server of PySpark, even fails as soon as 1,024 are open.
"""

import ctypes
import sys
from functools import cache
from mmap import ACCESS_READ, MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, PROT_READ, mmap
from typing import Any, NamedTuple

_WITHOUT_FILE = MAP_PRIVATE | MAP_ANONYMOUS
_IN_PLACE = MAP_SHARED | 0x10
"""Shared and ``MAP_FIXED``, which has this number on Linux and on macOS."""


def mapped(descriptor: int, size: int) -> mmap:
    """Return the whole of a file, to read; the caller may close the descriptor.

    Args:
        size: The bytes of the file.
    """
    if sys.version_info >= (3, 13):
        return mmap(descriptor, 0, access=ACCESS_READ, trackfd=False)
    if not size:
        raise ValueError("cannot map an empty file")
    # memory without a file has no descriptor; the file then takes its place in the address space
    found = mmap(-1, size, _WITHOUT_FILE, PROT_READ)
    system = _system()
    buffer = _Buffer()
    place = ctypes.addressof(buffer)
    system.get_buffer(found, place, 0)  # `from_buffer` of ctypes refuses memory that is read-only
    start = buffer.buf
    system.release_buffer(place)
    if system.map(start, size, PROT_READ, _IN_PLACE, descriptor, 0) != start:
        raise OSError(ctypes.get_errno(), "the file cannot be mapped")
    return found


class _Buffer(ctypes.Structure):
    """Python's ``Py_buffer``, of which only the address is read."""

    _fields_ = (("buf", ctypes.c_void_p), ("rest", ctypes.c_void_p * 10))


class _System(NamedTuple):
    """Functions of Python and of the system."""

    get_buffer: Any
    release_buffer: Any
    map: Any


@cache
def _system() -> _System:
    python, number = ctypes.PyDLL(None), ctypes.c_int
    get_buffer, release_buffer = python.PyObject_GetBuffer, python.PyBuffer_Release
    get_buffer.argtypes = (ctypes.py_object, ctypes.c_void_p, number)
    release_buffer.argtypes, release_buffer.restype = (ctypes.c_void_p,), None
    found = ctypes.CDLL(None, use_errno=True).mmap
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *3 * (number,), ctypes.c_int64)
    found.restype = ctypes.c_void_p
    return _System(get_buffer, release_buffer, found)

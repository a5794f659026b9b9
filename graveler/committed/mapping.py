"""Files mapped into memory, without a descriptor for each of them.

Before Python 3.13 an `mmap` of a file keeps a copy of its descriptor. A process that reads a lake of
some thousand ranges would use up its descriptors. Code that calls ``select``, such as the callback
server of PySpark, even fails as soon as 1,024 are open.
"""

import ctypes
import os
import sys
from functools import cache
from mmap import ACCESS_READ, MAP_SHARED, PROT_READ, mmap
from typing import Any, Final

_MAP_FIXED: Final = 0x10
"""The same on Linux and macOS."""


def mapped(descriptor: int) -> mmap:
    """Return the whole of a file, to read; the caller may close the descriptor.

    Raises:
        OSError: The file cannot be mapped.
        ValueError: It is empty.
    """
    if sys.version_info >= (3, 13):
        return mmap(descriptor, 0, access=ACCESS_READ, trackfd=False)
    size = os.fstat(descriptor).st_size
    if not size:
        raise ValueError("cannot map an empty file")
    # memory without a file has no descriptor; the file then takes its place in the address space
    found = mmap(-1, size, access=ACCESS_READ)
    start = _address(found)
    if _map()(start, size, PROT_READ, MAP_SHARED | _MAP_FIXED, descriptor, 0) != start:
        raise OSError(ctypes.get_errno(), "the file cannot be mapped")
    return found


class _Buffer(ctypes.Structure):
    """Python's ``Py_buffer``."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


def _address(memory: mmap) -> int:
    """Return where memory starts; ``from_buffer`` of `ctypes` refuses memory that is read-only."""
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(memory), ctypes.byref(buffer), 0)
    start: int = buffer.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return start


@cache
def _map() -> Any:
    """Return the system's ``mmap``."""
    found = ctypes.CDLL(None, use_errno=True).mmap
    found.restype = ctypes.c_void_p
    number, size = ctypes.c_int, ctypes.c_size_t
    found.argtypes = (ctypes.c_void_p, size, number, number, number, ctypes.c_int64)
    return found

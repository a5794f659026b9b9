"""What tests of the store of a Keep server put, get, damage and count."""

import io

from graveler.keep.locators import Locator
from graveler.keep.volumes.memory import MemoryVolume
from tests.harness.keep import digest, uuid

TTL, LIFE = 1000, 5000
QUX, FOO = b"qux", b"foo"
LARGE = bytes(range(251)) * 20_000


class Traced(MemoryVolume):
    """A volume that records its calls, and fails where a test wants it."""

    def __init__(self, name, trace, clock, *, role):
        super().__init__(uuid(name * 5), clock=clock, role=role)
        self.name, self.trace, self.failing = name, trace, {}
        for call in ("status", "open", "writer", "touch", "trash"):
            setattr(self, call, lambda *given, call=call: self._call(call, *given))

    def _call(self, call, *given):
        shown = {"writer": "write", "status": "read", "open": "read"}.get(call, call)
        if self.trace[-1:] != [f"{shown} {self.name}"]:
            self.trace.append(f"{shown} {self.name}")
        if call in self.failing:
            raise self.failing[call]
        return getattr(MemoryVolume, call)(self, *given)


def put(store, data, **options):
    return store.put(digest(data), io.BytesIO(data), len(data), **options)


def get(store, data, **options):
    with store.get(Locator.of(data), **options) as block:
        assert (block.content is None) != (block.file is None)
        found = block.file.read() if block.content is None else bytes(block.content)
        assert block.size == len(found)
        return found


def damage(volume, data, wrong=None):
    """Replace a copy by other bytes, without a change of its time."""
    inner = getattr(volume, "_inner", volume)
    name = digest(data)
    with inner.open(name) as opened:
        raw = opened.file.read()
    inner.put(name, raw[:-1] + bytes([raw[-1] ^ 1]) if wrong is None else wrong)


def counters(store):
    found = [volume["counters"] for volume in store.state()["volumes"]]
    return {name: sum(each.get(name, 0) for each in found) for each in found for name in each}

"""Where a range ends: a rule over the last key alone, so that equal keys break equally.

The rule looks at nothing but the key just written and the logical bytes since the last
break. Two trees that share keys therefore share breaks, regardless of who built them and in
how many commits, and with the breaks they share range files. The hash is the one
Spark computes natively (``xxhash64`` of the binary key), so that a job on a cluster cuts
where a single process does; compressed sizes are left out because they depend on the
library that writes.
"""

from dataclasses import dataclass
from typing import Final

from xxhash import xxh64_intdigest

from graveler.errors import InvalidInputError

HASH_SEED: Final = 42
HASH_MASK: Final = (1 << 63) - 1
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Splitting:
    """The parameters of the rule; a repository keeps its own.

    Attributes:
        min_bytes: Logical bytes (keys and values) below which no range ends by itself.
        max_bytes: Logical bytes at which a range always ends; it may exceed them by one record.
        raggedness: Between the two, on average, one key in this many ends its range.
    """

    min_bytes: int = 0
    max_bytes: int = 20 * _MIB
    raggedness: int = 50_000

    def __post_init__(self) -> None:
        if not 0 <= self.min_bytes <= self.max_bytes or self.max_bytes < 1 or self.raggedness < 1:
            raise InvalidInputError(
                f"splitting of {self.min_bytes} to {self.max_bytes} bytes, raggedness "
                f"{self.raggedness}: give 0 <= min_bytes <= max_bytes, 1 <= max_bytes and "
                "1 <= raggedness"
            )

    def ends_range(self, key: bytes, size: int) -> bool:
        """Return whether a range of `size` logical bytes ends after its last key, `key`."""
        return size >= self.min_bytes and (
            size >= self.max_bytes
            or (xxh64_intdigest(key, HASH_SEED) & HASH_MASK) % self.raggedness == 0
        )

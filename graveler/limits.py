"""How much of everything there may be: writers refuse more, and readers take as much.

Sizes are bytes of UTF-8, texts as JSON has them: control characters take six bytes, quotes and
backslashes two. ``docs/formats/limits.md`` has the table.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

PATH_BYTES: Final = 1024
"""Of a path; DynamoDB takes no longer key."""
ADDRESS_BYTES: Final = 4096
"""Of an entry's address."""
CHECKSUM_BYTES: Final = 256
"""Of an entry's checksum, algorithm included, and of what a foreign store calls its version."""
CONTENT_TYPE_BYTES: Final = 256
"""Of an entry's content type."""
METADATA_PAIRS: Final = 1000
"""Pairs of metadata of an entry, a commit or a run."""
METADATA_BYTES: Final = 64 * 1024
"""Of all names and values of such metadata together."""
ENTRY_BYTES: Final = 128 * 1024
"""Of an entry's value record: more than all that may be in it."""
MESSAGE_BYTES: Final = 64 * 1024
"""Of a commit's message, and of the reason for which a run is set aside."""
COMMITTER_BYTES: Final = 1024
"""Of a committer's name."""
RECORD_BYTES: Final = 384 * 1024
"""Of a commit's record, and of a run's; with its names it fits into an item of DynamoDB."""
RUN_KEY_BYTES: Final = 4096
"""Of a run's key, a step's name and an owner."""
REF_CHARACTERS: Final = 200
"""Of the name of a branch or a tag."""
KEY_BYTES: Final = 4096
"""Of a key that a reader of tables takes. Without a limit a small file could make the reader copy
keys without end: each one may take over the beginning of the one before it."""
BLOCK_BYTES: Final = 64 * 1024 * 1024
"""Of a block of a table, unpacked; one record is never split."""

LONGEST_DURATION: Final = timedelta(days=36_500)
"""Of leases, times to live, windows and grace; added to any time of `TIMES` it gives a time."""
TIMES: Final = (datetime(1, 1, 2, tzinfo=UTC), datetime(9800, 1, 1, tzinfo=UTC))
"""The first and the last time that records hold."""

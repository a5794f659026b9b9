"""Verdicts and judgements as they are kept: the same inputs are not judged twice.

Key-value partition ``verdicts:<uid>``: ``verdict/<inputs>`` holds a verdict, ``judged/<commit>``
the last judgement on a commit, ``recent/<time, counted down>-<commit>`` says of each when it was
made, the latest first.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Final

from graveler.fields import Fields
from graveler.gates.judgement import Judgement
from graveler.gates.verdict import Verdict, read_verdict
from graveler.identity import unix_us
from graveler.kv.store import KVStore
from graveler.records import decode_json, encode_json, read_key

_VERDICT: Final = b"verdict/"
_JUDGED: Final = b"judged/"
_RECENT: Final = b"recent/"
_END_OF_TIME: Final = (1 << 63) - 1


class Verdicts:
    """The verdicts of one repository."""

    def __init__(self, kv: KVStore, uid: str) -> None:
        self._kv = kv
        self._partition = f"verdicts:{uid}"

    def find(self, judged: str) -> Verdict | None:
        """Return the verdict on the inputs whose hash is `judged`, or None."""
        stored = self._kv.get(self._partition, _VERDICT + judged.encode())
        if stored is None:
            return None
        return read_verdict(Fields(decode_json(stored.value, "verdict"), "verdict"))

    def keep(self, judgement: Judgement, now: datetime, verdicts: Mapping[str, Verdict]) -> None:
        """Keep a judgement, and verdicts by the hash of their inputs, in one round trip."""
        down = f"{_END_OF_TIME - unix_us(now):020d}-{judgement.commit}"
        self._kv.set_many(
            self._partition,
            [
                *(
                    (_VERDICT + judged.encode(), encode_json(asdict(verdict)))
                    for judged, verdict in verdicts.items()
                ),
                (_JUDGED + judgement.commit.encode(), judgement.encode()),
                (_RECENT + down.encode(), b"{}"),
            ],
        )

    def on(self, commit: str) -> Judgement | None:
        """Return the last judgement on a commit, None where it was never judged."""
        stored = self._kv.get(self._partition, _JUDGED + commit.encode())
        return None if stored is None else Judgement.decode(stored.value)

    def recent(self) -> Iterator[Judgement]:
        """Yield the judgements, the latest first; a commit's last one only."""
        seen = set()
        for key, _ in self._kv.scan(self._partition, _RECENT):
            if not key.startswith(_RECENT):
                return
            commit = read_key(key.rpartition(b"-")[2], "judgement")
            judgement = None if commit in seen else self.on(commit)
            seen.add(commit)
            if judgement is not None:
                yield judgement

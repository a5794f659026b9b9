"""The inputs of a run, folded to a bounded number."""

from collections.abc import Iterable
from threading import Lock
from typing import Final

from graveler.fields import Fields
from graveler.records import decode_json, encode_json
from graveler.runs.record import Input

_MOST: Final = 64
_MOST_COMMITS: Final = 256
_UNFOLDED: Final = 1024


def folded(inputs: Iterable[Input]) -> tuple[Input, ...]:
    """Return the inputs, sorted, without those that another input covers.

    If there are more than 64, the deepest folders are replaced by their parents until there are
    not, or until each commit has one. Of more than 256 commits some are dropped. A prefix that is
    too wide is safe; a list without bound is not.
    """
    found = _uncovered(set(inputs))
    most = max(_MOST, len({read.commit for read in found}))
    while len(found) > most and any(read.prefix for read in found):
        deepest = max(read.prefix.count("/") for read in found)
        found = _uncovered(
            {
                Input(read.commit, _parent(read.prefix))
                if read.prefix.count("/") == deepest
                else read
                for read in found
            }
        )
    return tuple(sorted(found)[:_MOST_COMMITS])


def _uncovered(found: set[Input]) -> set[Input]:
    kept: set[Input] = set()
    last: Input | None = None
    for read in sorted(found):
        covered = last is not None and last.commit == read.commit
        if not (covered and last is not None and read.prefix.startswith(last.prefix)):
            kept.add(read)
            last = read
    return kept


def _parent(prefix: str) -> str:
    folder, slash, _ = prefix.rstrip("/").rpartition("/")
    return folder + slash


def encode_inputs(inputs: Iterable[Input]) -> str:
    """Return inputs as text for the metadata of a commit."""
    return encode_json([[read.commit, read.prefix] for read in inputs]).decode()


def decode_inputs(text: str) -> tuple[Input, ...]:
    """Return the inputs of the text in a commit's metadata.

    Raises:
        CorruptionError: The text is not a list of inputs.
    """
    what = "inputs of a commit"
    raw = text.encode("utf-8", "surrogatepass")
    return read_inputs(Fields({"inputs": decode_json(raw, what)}, what))


def read_inputs(fields: Fields) -> tuple[Input, ...]:
    """Return the field ``inputs`` of a record, or raise CorruptionError."""
    return tuple(
        Input(read.text("commit"), read.text("prefix"))
        for read in fields.rows("inputs", ("commit", "prefix"))
    )


class Reads:
    """Records reads by folder; safe for threads."""

    def __init__(self) -> None:
        self._found: set[Input] = set()
        self._taken: set[Input] = set()
        self._lock = Lock()

    def note(self, commit: str, prefix: str) -> None:
        """Record that the files below `prefix` were read from a commit."""
        read = Input(commit, prefix)
        if read in self._found:
            return
        with self._lock:
            self._found.add(read)
            if len(self._found) > _UNFOLDED:
                self._found = set(folded(self._found))

    def note_path(self, commit: str, path: str) -> None:
        """Record that a file was read, by its folder."""
        folder, slash, _ = path.rpartition("/")
        self.note(commit, folder + slash or path)

    @property
    def new(self) -> tuple[Input, ...]:
        """The inputs that are not yet on the run's record."""
        with self._lock:
            return tuple(self._found - self._taken)

    @property
    def all(self) -> tuple[Input, ...]:
        """All inputs."""
        with self._lock:
            return folded(self._found)

    def kept(self, inputs: Iterable[Input]) -> None:
        """Note that these inputs are on the record."""
        with self._lock:
            self._taken.update(inputs)

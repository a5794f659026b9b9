"""The files of tables: reading them by the stores of the repository, and which of them a table names."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from uuid import UUID

from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import ListReader, MapReader, StructReader
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.manifest import ManifestEntryStatus, ManifestFile, read_manifest_list
from pyiceberg.serializers import Compressor, FromByteStream
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField

from graveler.committed.lookup import find_many
from graveler.committed.metarange import prefix_end, scan
from graveler.errors import GravelerError, InvalidInputError, ObjectNotFoundError
from graveler.model import Entry
from graveler.objects.address import TABLES, AddressBook, is_own
from graveler.objects.verified import RangedFile
from graveler.reads.stores import Stores
from graveler.reads.view import View
from graveler.tables.layout import Pointer, path_of
from graveler.tables.metadata import as_json, folder_of
from graveler.values import entry_address

_DATA = (".parquet", ".orc")
_DATA_FILE = 2
_READ = {0: 0, _DATA_FILE: 1, 100: 0, 104: 1}
"""What is read of an entry of a manifest: the ids of its status and its file, and of the path and the
size of the file, each with its place in the result."""


class StoredFile(InputFile):
    """A file in a store of the repository."""

    def __init__(self, location: str, stores: Stores, address: str) -> None:
        super().__init__(location)
        self._stores = stores
        self._address = address

    def __len__(self) -> int:
        store, key = self._stores.locate(self._address)
        return store.head(key).size

    def exists(self) -> bool:
        """Return whether the file exists."""
        try:
            return len(self) >= 0
        except ObjectNotFoundError:
            return False

    def open(self, seekable: bool = True) -> InputStream:
        """Return a stream of the file."""
        del seekable
        store, key = self._stores.locate(self._address)
        return BytesIO(store.get(key))


class StoreFiles(FileIO):
    """The files of tables in the stores of a repository.

    Files elsewhere need ``repository.links.allow``. So a client cannot let a server read what it names.
    """

    def __init__(self, stores: Stores) -> None:
        super().__init__()
        self._stores = stores
        self._book = AddressBook(stores.storage)
        self.start = f"{TABLES}{stores.storage_id}/"

    def key(self, owner: str, uuid: UUID) -> str:
        """Return the folder that graveler issues for a table, as a key of the storage; see `folder_of`."""
        return f"{self.start}{folder_of(owner, uuid)}"

    def address(self, location: str) -> str:
        """Return the address of a file as entries have it.

        Raises:
            InvalidInputError: It is in the storage of the repository, and no file of a table.
        """
        address = self._book.stored_form(location)
        if is_own(address) and not address.startswith(self.start):
            raise InvalidInputError(
                f"file {location!r} is in the storage of repository {self._stores.name!r}, but not "
                f"below {self._stores.uri(self.start)}, where the files of tables are"
            )
        return address

    def new_input(self, location: str) -> StoredFile:
        """Return a file for reading."""
        return StoredFile(location, self._stores, self.address(location))

    def new_output(self, location: str) -> OutputFile:
        """Refuse to write: engines write the files of tables, and `put` writes metadata."""
        raise NotImplementedError(f"{location}: engines write the files of tables themselves")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refuse to delete: garbage collection deletes the files that no ref names."""
        raise NotImplementedError(f"{location}: garbage collection deletes files that no ref names")

    def put(self, location: str, content: bytes) -> str:
        """Write a new file, and return its address."""
        address = self.address(location)
        self._stores.objects.put(address, content)
        return address

    def metadata(self, location: str) -> TableMetadata:
        """Return the table's metadata in a file.

        Raises:
            ObjectNotFoundError: The file is missing.
            InvalidInputError: It is no metadata.
        """
        try:
            stream = self.new_input(location).open()
        except ObjectNotFoundError as error:  # Iceberg's words
            told = f"Failed to open input stream for file: {location}: {error}"
            raise error.saying(told) from error
        with _decoding(location):
            packing = Compressor.get_compressor(location)
            return FromByteStream.table_metadata(stream, compression=packing)

    def table(self, pointer: Pointer) -> tuple[TableMetadata, str]:
        """Return the metadata of a table, and where it is.

        Raises:
            ObjectNotFoundError: The file is missing.
            InvalidInputError: It is not the metadata of this table.
        """
        location = self._stores.uri(pointer.metadata)
        found = self.metadata(location)
        if str(found.table_uuid) != pointer.uuid:
            raise InvalidInputError(
                f"{location!r} is the metadata of table {found.table_uuid}, and not of {pointer.uuid}: it "
                "was altered"
            )
        return found, location

    def manifests(self, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
        """Return the manifests of snapshots by location."""
        found: list[ManifestFile] = []
        for snapshot in snapshots:
            with _decoding(snapshot.manifest_list):
                found += read_manifest_list(self.new_input(snapshot.manifest_list))
        return {each.manifest_path: each for each in found}

    def live(self, manifests: Iterable[str]) -> dict[str, int]:
        """Return the sizes of the data and delete files that manifests have, by location."""
        found: dict[str, int] = {}
        for location in manifests:
            with _decoding(location), AvroFile[Record](self.new_input(location)) as entries:
                entries.reader = _part(entries.reader, entries.schema.fields)  # type: ignore[arg-type]
                found.update(
                    (entry[1][0], entry[1][1])
                    for entry in entries
                    if entry[0] != ManifestEntryStatus.DELETED
                )
        return found

    def dropped(self, before: TableMetadata, after: TableMetadata) -> set[str]:
        """Return the files that a table no longer has after its metadata was changed.

        Manifests are read only if snapshots were removed, and those that stay only if a removed one has
        files.
        """
        earlier, now = ({*attached(each), *logged(each)} for each in (before, after))
        stay = {snapshot.snapshot_id for snapshot in after.snapshots}
        gone = [each for each in before.snapshots if each.snapshot_id not in stay]
        if not gone:
            return earlier - now
        kept = self.manifests(after.snapshots)
        manifests = {at: each for at, each in self.manifests(gone).items() if at not in kept}
        lists = {each.manifest_list for each in gone}
        lists -= {each.manifest_list for each in after.snapshots}
        files = set(self.live(manifests))
        if files:
            files -= self.live(kept).keys()
        return {*(earlier - now), *lists, *manifests, *files}


class UnwrittenFiles(StoreFiles):
    """The files of tables, and new ones that are kept in memory until `write`."""

    def __init__(self, stores: Stores) -> None:
        super().__init__(stores)
        self._new: dict[str, bytes] = {}

    def new_input(self, location: str) -> StoredFile:
        """Return a file for reading."""
        if location in self._new:
            return _UnwrittenFile(location, self._new)
        return super().new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """Return a file for writing."""
        return _UnwrittenFile(location, self._new)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Forget a new file."""
        self._new.pop(str(location), None)

    def write(self) -> None:
        """Write the new files."""
        for location, content in self._new.items():
            self.put(location, content)


class _UnwrittenFile(StoredFile, OutputFile):
    """A new file in memory."""

    def __init__(self, location: str, files: dict[str, bytes]) -> None:
        InputFile.__init__(self, location)
        self._files = files

    def __len__(self) -> int:
        return len(self._files[self.location])

    def exists(self) -> bool:
        """Return whether the file has been written."""
        return self.location in self._files

    def open(self, seekable: bool = True) -> InputStream:
        """Return a stream of the file."""
        del seekable
        return BytesIO(self._files[self.location])

    def to_input_file(self) -> InputFile:
        """Return the file for reading."""
        return self

    def create(self, overwrite: bool = False) -> OutputStream:
        """Return a stream whose bytes are those of the file once it is closed."""
        del overwrite
        files, location = self._files, self.location

        class Stream(BytesIO):
            def close(self) -> None:
                files[location] = self.getvalue()
                super().close()

        return Stream()


class EntryFile(StoredFile):
    """A file of a table, by its entry: data is read in part, and what describes it whole."""

    def __init__(self, location: str, entry: Entry, view: View) -> None:
        InputFile.__init__(self, location)
        self.entry = entry
        self._view = view

    def __len__(self) -> int:
        return self.entry.size

    def open(self, seekable: bool = True) -> InputStream:
        """Return a stream of the file."""
        del seekable
        file = RangedFile(self.entry.size, partial(self._view.read_range, self.entry))
        return file if self.location.endswith(_DATA) else BytesIO(file.readall())


class TreeFiles(StoreFiles):
    """The files of a table as entries of a tree, also of one that only a gate sees.

    Args:
        table: The folder of the table.
        metadata: The address of its metadata, which is below the folders that graveler issues, or elsewhere.
    """

    def __init__(self, view: View, table: str, metadata: str) -> None:
        FileIO.__init__(self)
        self._view = view
        self._table = table
        self._book = AddressBook(view.uri(Entry("_", TABLES, 0)).removesuffix(TABLES))
        self.start = (
            f"{TABLES}{metadata.split('/')[1]}/"  # of an address elsewhere, nothing is below it
        )

    def address(self, location: str) -> str:
        """Return the address of a file as entries have it."""
        return self._book.stored_form(location)

    def new_input(self, location: str) -> EntryFile:
        """Return a file for reading."""
        path = path_of(self._table, self.address(location), self.start)
        return EntryFile(location, self._view.stat(path), self._view)


class TableEntries:
    """The entries of a table in a tree.

    Args:
        tree: The tree, or an empty one to have new entries for all files.
        table: The folder of the table.
        place: Where files in the storage of the repository must be that have no entry yet, unless the table
            has another file in their folder.
    """

    def __init__(
        self, stores: Stores, tree: str, table: str, files: StoreFiles, place: str
    ) -> None:
        self._stores = stores
        self._tree = tree
        self._table = table
        self._files = files
        self._place = place
        self._folders: dict[str, bool] = {}

    def path(self, location: str) -> str:
        """Return the path of a file's entry."""
        return self._path(self._files.address(location))

    def _path(self, address: str) -> str:
        return path_of(self._table, address, self._files.start)

    def missing(self, sizes: Mapping[str, int | None]) -> dict[str, Entry]:
        """Return new entries for the files that have none, by location.

        Raises:
            InvalidInputError: A file is at a place that is not the table's, or is missing, or another one
                has its name.
        """
        addresses = list(map(self._files.address, sizes))
        keys = [self._path(address).encode() for address in addresses]
        rows = find_many(self._stores.ranges, self._tree, keys) if keys else ()
        found: dict[str, Entry] = {}
        for (location, size), address, key, row in zip(
            sizes.items(), addresses, keys, rows, strict=True
        ):
            if row is None:
                self._check_place(location, address)
                known = len(self._files.new_input(location)) if size is None else size
                found[location] = Entry(key.decode(), address, known)
            elif (other := entry_address(key, row[len(key) :]).decode()) != address:
                raise InvalidInputError(
                    f"file {location!r}: {key.decode()!r} is another file already, {other}: give each "
                    "file of a table a name of its own"
                )
        return found

    def added(self, snapshots: Sequence[Snapshot]) -> list[Entry]:
        """Return new entries for the files of snapshots that have none.

        A manifest with an entry is not read, because all of its files have entries.
        """
        lists = self.missing({each.manifest_list: None for each in snapshots})
        manifests = self._files.manifests(each for each in snapshots if each.manifest_list in lists)
        new = self.missing({at: each.manifest_length for at, each in manifests.items()})
        files = self.missing(self._files.live(new))
        return [*lists.values(), *new.values(), *files.values()]

    def written(
        self, metadata: TableMetadata, base: TableMetadata | None = None
    ) -> tuple[list[Entry], Pointer]:
        """Write metadata. Return the entries that the table gets by it, and the new record.

        Args:
            base: Metadata whose snapshots have entries.
        """
        known = {each.snapshot_id for each in base.snapshots} if base else set()
        added = self.added([each for each in metadata.snapshots if each.snapshot_id not in known])
        also = self.missing(attached(metadata))
        version, name = len(metadata.metadata_log), UUID(hex=self._stores.ids.unique())
        location = f"{metadata.location}/metadata/{version:05d}-{name}.metadata.json"
        content = as_json(metadata).encode()
        address = self._files.put(location, content)
        entry = Entry(self.path(location), address, len(content))
        return [*added, *also.values(), entry], Pointer(str(metadata.table_uuid), address)

    def _check_place(self, location: str, address: str) -> None:
        if not is_own(address) or address.startswith(self._place) or self._is_beside(address):
            return
        raise InvalidInputError(
            f"file {location!r} is not below the table's location on this branch, "
            f"{self._stores.uri(self._place)}: load the table, and write there"
        )

    def _is_beside(self, address: str) -> bool:
        """Return whether the table has a file in the same folder: DuckDB puts deletes beside the data."""
        folder = address.rpartition("/")[0] + "/"
        if folder not in self._folders:
            path = (
                path_of(self._table, address, self._files.start).rpartition("/")[0].encode() + b"/"
            )
            rows = scan(self._stores.ranges, self._tree, path, prefix_end(path))
            start = folder.encode()
            self._folders[folder] = any(entry_address(*row).startswith(start) for row in rows)
        return self._folders[folder]


@contextmanager
def _decoding(location: str) -> Iterator[None]:
    """Refuse a file that PyIceberg cannot read, whatever it has."""
    try:
        yield
    except GravelerError:
        raise
    except Exception as error:
        raise InvalidInputError(f"{location!r} cannot be read: {error}") from error


def _part(whole: StructReader, fields: Sequence[NestedField]) -> StructReader:
    """Return a reader of `_READ`. The statistics of a file take longer than all the rest."""
    parts = []
    for (_, reader), field in zip(whole.field_readers, fields, strict=True):
        if field.field_id == _DATA_FILE:
            reader = _part(reader, field.field_type.fields)  # type: ignore[arg-type, attr-defined]  # noqa: PLW2901
        # PyIceberg reads a map or a list faster than it skips it
        rest = 2 if isinstance(reader, MapReader | ListReader) else None
        parts.append((_READ.get(field.field_id, rest), reader))
    return StructReader(tuple(parts), Record, whole.struct)


def attached(metadata: TableMetadata) -> dict[str, int | None]:
    """Return the statistics that metadata names, with their sizes."""
    statistics = [*metadata.statistics, *metadata.partition_statistics]
    return {each.statistics_path: each.file_size_in_bytes for each in statistics}


def logged(metadata: TableMetadata) -> list[str]:
    """Return the earlier metadata that metadata names."""
    return [each.metadata_file for each in metadata.metadata_log]

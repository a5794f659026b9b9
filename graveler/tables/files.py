"""The files of tables: reading them by the stores of the repository, and which of them a table names."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile
from pyiceberg.manifest import ManifestFile, read_manifest_list
from pyiceberg.serializers import Compressor, FromByteStream
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from graveler.errors import GravelerError, InvalidInputError, ObjectNotFoundError
from graveler.model import Entry
from graveler.objects.address import TABLES, AddressBook, is_own
from graveler.reads.stores import Stores
from graveler.reads.view import View
from graveler.tables.layout import path_of


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

    def manifests(self, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
        """Return the manifests of snapshots by location.

        PyIceberg's own reader remembers manifests by location, so that two lists of the same manifest
        would get the same sequence number.
        """
        found: list[ManifestFile] = []
        for snapshot in snapshots:
            with _decoding(snapshot.manifest_list):
                found += read_manifest_list(self.new_input(snapshot.manifest_list))
        return {each.manifest_path: each for each in found}

    def live(self, manifests: Mapping[str, ManifestFile]) -> dict[str, int]:
        """Return the sizes of the data and delete files that manifests have, by location."""
        found: dict[str, int] = {}
        for location, manifest in manifests.items():  # entries are large, so one manifest at a time
            with _decoding(location):
                files = [entry.data_file for entry in manifest.fetch_manifest_entry(self)]
                found.update((each.file_path, each.file_size_in_bytes) for each in files)
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


class TableEntries:
    """The entries of a table on a ref.

    Args:
        view: The tree, or an empty one to have new entries for all files.
        table: The folder of the table.
        place: Where files in the storage of the repository must be that have no entry yet.
    """

    def __init__(self, view: View, table: str, files: StoreFiles, place: str) -> None:
        self._view = view
        self._table = table
        self._files = files
        self._place = place

    def path(self, location: str) -> str:
        """Return the path of a file's entry."""
        return path_of(self._table, self._files.address(location), self._files.start)

    def missing(self, sizes: Mapping[str, int | None]) -> dict[str, Entry]:
        """Return new entries for the files that have none, by location.

        Raises:
            InvalidInputError: A file is at a place that is not the table's, or is missing, or another one
                has its name.
        """
        paths = {location: self.path(location) for location in sizes}
        found: dict[str, Entry] = {}
        for (location, path), entry in zip(
            paths.items(), self._view.stat_many(paths.values()), strict=True
        ):
            address = self._files.address(location)
            if entry is None:
                self._check_place(location, address)
                size = sizes[location]
                size = len(self._files.new_input(location)) if size is None else size
                found[location] = Entry(path, address, size)
            elif entry.address != address:
                raise InvalidInputError(
                    f"file {location!r}: {path!r} is another file already, {entry.address}: give each "
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
        files = self.missing(self._files.live({at: manifests[at] for at in new}))
        return [*lists.values(), *new.values(), *files.values()]

    def _check_place(self, location: str, address: str) -> None:
        if is_own(address) and not address.startswith(self._place):
            raise InvalidInputError(
                f"file {location!r} is not below the table's location on this branch, "
                f"{self._view.repository.uri(self._place)}: load the table, and write there"
            )


@contextmanager
def _decoding(location: str) -> Iterator[None]:
    """Refuse a file that PyIceberg cannot read, whatever it has."""
    try:
        yield
    except GravelerError:
        raise
    except Exception as error:
        raise InvalidInputError(f"{location!r} cannot be read: {error}") from error


def attached(metadata: TableMetadata) -> dict[str, int | None]:
    """Return the statistics that metadata names, with their sizes."""
    statistics = [*metadata.statistics, *metadata.partition_statistics]
    return {each.statistics_path: each.file_size_in_bytes for each in statistics}


def logged(metadata: TableMetadata) -> list[str]:
    """Return the earlier metadata that metadata names."""
    return [each.metadata_file for each in metadata.metadata_log]

"""A lake: its repositories, and the drivers they share."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from graveler import repository as use_cases
from graveler.base import arguments as args
from graveler.base.arguments import PathText
from graveler.base.background import no_progress
from graveler.base.names import check_branch, check_repository
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.committed.ranges.range_store import RangeStore
from graveler.committed.splitting import SPLITTING, Splitting, initial
from graveler.config import default_committer
from graveler.display import SHOWN, Cell, Shown, table
from graveler.errors import (
    AlreadyExistsError,
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    KVOutdatedError,
    PermissionDeniedError,
    RepositoryNotFoundError,
    StorageMismatchError,
)
from graveler.lake.catalogue import PARTITIONS, RepositoryRecord
from graveler.lake.drivers import Drivers
from graveler.lake.repository import Repository
from graveler.lake.storages import absolute
from graveler.objects.address import storage_id
from graveler.refs.refs import Refs

if TYPE_CHECKING:
    from graveler.base.background import Progress
    from graveler.lakefs import Imported


class Lake(Shown, Drivers):
    """Repositories that share a key-value store and a place for objects.

    Close it, or use it as a context manager. Any number of threads may share it.

    Attributes:
        location: The argument of ``graveler.open`` that opens the same lake in another process.
    """

    def _repr_html_(self) -> str:
        names = self.repositories()  # an unmounted storage does not matter
        rows = [{"repository": [Cell(name)]} for name in names[:SHOWN]]
        return super()._repr_html_() + table(rows, more=len(names) > SHOWN)

    def __getitem__(self, name: str) -> Repository:
        return self.repository(name)

    def __iter__(self) -> Iterator[Repository]:
        return map(self.repository, self.repositories())

    def __contains__(self, name: str) -> bool:
        return name in self.repositories()

    def repositories(self) -> list[str]:
        """Return the names of the repositories, sorted.

        Raises:
            KVOutdatedError: There are none, but the lake's own storage has one.
        """
        names = list(self._catalogue.names())
        if not names:
            with suppress(BackendUnavailableError, InvalidInputError, PermissionDeniedError):
                self._storages.check_known()
        return names

    def repository(self, name: str) -> Repository:
        """Return a repository.

        Raises:
            RepositoryNotFoundError: No repository has this name.
            OlderFormatError: An older graveler made it.
            BackendUnavailableError: Its storage is a folder without its files, usually because a
                volume is not mounted.
            StorageMismatchError: The settings name another storage than the repository's.
        """
        return self._repository(args.text(name, "name"))

    def has(self, repository: Repository) -> bool:
        """Return whether the name of a repository is its own still: it may have been deleted."""
        record = self._catalogue.find(repository.name)
        return record is not None and record.uid == repository.stores.uid

    def accept(self, name: str, *, missing: int | None = None) -> Repository:
        """Accept the current state of both stores of a repository, although one has lost data.

        Use it after a key-value store was restored from an old backup, or a storage lost files. The
        commits that lost parts of their trees expire. A commit of staged writes that lost their bytes
        will be refused.

        Args:
            name: Name of the repository.
            missing: As for `Repository.expire_missing`.

        Raises:
            ObjectNotFoundError: More is missing than is accepted.
            CorruptionError: A table of a commit is damaged, not missing.
            StorageMismatchError: The storage belongs to another repository or is elsewhere, which
                is a mistake in the settings.
        """
        repository = self._repository(args.text(name, "name"), check=False)
        args.optional(args.count, missing, "missing")
        from graveler.repository import wholeness

        if self._witnesses is not None:
            check = partial(wholeness.check_refs, repository.stores, missing=missing)
            found = self._witnesses[repository.stores.uid].accept(check)
            wholeness.record_missing(repository.stores, found)
        return repository

    def _repository(self, name: str, *, check: bool = True) -> Repository:
        record = self._catalogue.find(name)
        if record is None:
            with suppress(BackendUnavailableError, InvalidInputError, PermissionDeniedError):
                self._storages.check_free(self.default_storage(name), name)
            names = ", ".join(self._catalogue.names()) or "none"
            raise RepositoryNotFoundError(
                f"no repository {name!r} in {self.location} (there are: {names}): "
                f"make it with `graveler repo create {name}`"
            )
        return self._open(name, record, check=check)

    def create_repository(
        self,
        name: str,
        *,
        storage: PathText | None = None,
        default_branch: str = "main",
        exist_ok: bool = False,
        splitting: Splitting | None = None,
        take_over: bool = False,
        adopt: bool = False,
        known_id: str = "",
    ) -> Repository:
        """Make a repository with an empty first commit on its default branch.

        Args:
            name: 3 to 63 of ``a-z 0-9 -``.
            storage: Root of its objects: a URI such as ``s3://bucket/flights``, or the path of a
                folder, relative to the working folder; by default below the lake's storage.
            default_branch: Name of the first branch.
            exist_ok: Return the existing repository of that name.
            splitting: Its first splitting policy; by default the lake's setting.
            take_over: Take over the storage of a repository that this lake does not know. A lake
                that still uses it gets an error when it moves its next ref.
            adopt: Accept a storage that has no owner and holds something, which is left alone. It may
                not hold tables of a repository.
            known_id: The id of the storage, if it has lost its marker; see `Stores.storage_id`.

        Raises:
            AlreadyExistsError: The name is taken.
            KVOutdatedError: The storage belongs to a repository that this lake does not know.
            InvalidInputError: The storage belongs to another repository of the lake, or holds
                something.
        """
        name, default_branch = args.text(name, "name"), args.text(default_branch, "default_branch")
        storage = None if storage is None else args.storage_text(storage)
        args.flag(exist_ok, "exist_ok"), args.flag(take_over, "take_over")
        args.flag(adopt, "adopt")
        args.optional(args.instance, splitting, "splitting", kind=Splitting, expected="a Splitting")
        check_repository(name), check_branch(default_branch)
        if self._catalogue.has(name):
            return self._taken(name, exist_ok=exist_ok)
        uid = self._ids.unique()
        place = absolute(storage or self.default_storage(name))
        wanted = RepositoryRecord(
            lake=self._catalogue.identity(),
            uid=uid,
            storage="" if place == self.default_storage(name) else place,
            default_branch=default_branch,
            splitting=splitting or initial(self._config.splitting, uid),
            storage_id=known_id or storage_id(uid),
        )
        try:
            repository = self._make(name, place, wanted, take_over=take_over, adopt=adopt)
        except GravelerError:
            if not self._catalogue.has(name):
                raise
            repository = None  # another process has made it
        return repository or self._taken(name, exist_ok=exist_ok)

    def _make(
        self, name: str, place: str, wanted: RepositoryRecord, *, take_over: bool, adopt: bool
    ) -> Repository | None:
        """Make a repository, or finish one whose maker died; None if another process was faster.

        Each step can be repeated by any process. The storage is claimed before the repository
        exists, so that no two repositories have the same.
        """
        record = self._catalogue.reserve(name, wanted)
        claiming = False
        try:
            marker = self._storages.check_free(
                place, name, uid=record.uid, take_over=take_over, adopt=adopt
            )
            if marker is None and adopt and wanted.storage_id == storage_id(wanted.uid):
                self._storages.check_no_tables(place)
            kept = record.storage_id if marker is None else marker.owner.storage_id
            record = replace(record, storage_id=kept, nonce=self._ids.unique())
            repository = self._open(name, record, check=False)
            if self._witnesses is not None:
                claiming = True
                self._witnesses[record.uid].claim(take_over=take_over)
        except (InvalidInputError, KVOutdatedError, StorageMismatchError) as error:
            # a store that refuses a request of the claim may have the marker: a repetition finishes it
            if not (claiming and isinstance(error, InvalidInputError)):
                self._catalogue.release(name, wanted.uid)
            raise
        # not watched by the witness, because there is nothing to lose yet
        refs = Refs(self._kv, record.uid, clock=self._clock, ids=self._ids)
        root = refs.commits.add(
            metarange=EMPTY_METARANGE,
            parents=(),
            message="Repository created",
            committer=default_committer(),
            created=self._clock.now(),
            metadata={},
        )
        with suppress(AlreadyExistsError):
            refs.branches.start(record.default_branch, root.id)
        added = self._catalogue.add(name, record)  # this makes all of it visible
        self._catalogue.release(name, record.uid)
        return repository if added else None

    def delete_repository(
        self, name: str, *, purge: bool = False, storage: PathText | None = None
    ) -> None:
        """Put a repository into the trash, or delete it; also one that was never finished.

        `undelete_repository` takes it out of the trash. Stop what uses the repository first.

        Args:
            name: Its name. Its name can be used again at once, its storage after a purge.
            purge: Delete its records, and what graveler put into its storage, for good, also if it is
                in the trash. Unknown files stay.
            storage: Root URI of its objects. Without one it is the repository that is not in the
                trash, or the only one of this name there.

        Raises:
            RepositoryNotFoundError: No repository has this name and storage, in the trash neither.
            InvalidInputError: Several of this name are in the trash; the message has their storages.
            KVOutdatedError: A purge by a copy of the key-value store, or an old one: the storage has
                counts that it did not assign. The repository stays in the trash.
        """
        args.flag(purge, "purge")
        place = None if storage is None else absolute(args.storage_text(storage))
        from graveler.gc.lease import LEASE_SECONDS

        def chosen(record: RepositoryRecord) -> bool:
            return place in (None, self._storages.of(name, record))

        moved = self._catalogue.discard(check_repository(args.text(name, "name")), chosen)
        found = moved or [*filter(chosen, self._catalogue.trash(name))]
        if not found:
            at = f" at {place}" if place else ""
            raise RepositoryNotFoundError(f"no repository {name!r}{at}, in the trash neither")
        if purge and not (moved or place or len(found) == 1):
            places = ", ".join(self._storages.of(name, record) for record in found)
            raise InvalidInputError(
                f"repository {name!r}: the trash has several, at {places}: name one by its storage: "
                f"`graveler repo delete {name} --purge --storage URI`"
            )
        for record in found if purge else ():
            outlast = partial(self._clock.sleep, LEASE_SECONDS)
            check = self._open(name, record, check=False).check_kv
            self._storages.clear(self._storages.of(name, record), record, check, outlast)
            for kind in PARTITIONS:
                self._kv.drop(f"{kind}:{record.uid}")
            for partition in list(self._kv.partitions(f"staging:{record.uid}:")):
                self._kv.drop(partition)
            self._catalogue.forget(name, record)

    def undelete_repository(self, name: str) -> Repository:
        """Take the repository of a name out of the trash; the latest one, if there are several.

        Raises:
            RepositoryNotFoundError: The trash has none of this name.
            AlreadyExistsError: The name is taken.
        """
        trash = self._catalogue.trash(check_repository(args.text(name, "name")))
        if not trash:
            raise RepositoryNotFoundError(f"no repository {name!r} in the trash")
        if not self._catalogue.add(name, trash[-1]):
            raise AlreadyExistsError(f"repository {name!r} exists: delete that one first")
        self._catalogue.forget(name, trash[-1])
        return self.repository(name)

    def restore_repository(
        self,
        file: str | Path,
        *,
        name: str | None = None,
        storage: PathText | None = None,
        take_over: bool = False,
        missing: int | None = None,
    ) -> Repository:
        """Restore a dump of refs; make the repository if the lake has none of that name.

        Use it for a lake whose key-value store was lost. The objects remain in the storage, and the
        dump (``repository.dump_refs``) has the refs and commits that name them. May be repeated.
        A storage on Keep is not restored by a dump, but by a backup of the key-value store.

        Args:
            file: The dump.
            name: Name of the repository; by default the name in the dump.
            storage: Root URI of its objects; by default the one in the dump.
            take_over: Take over the storage from the lake that its marker names. Stop that lake
                first. Otherwise it writes and deletes files until it moves its next ref and gets
                an error.
            missing: As for `Repository.expire_missing`.

        Raises:
            StorageMismatchError: The storage belongs to a lake, and `take_over` is not set.
            CorruptionError: The file is damaged, or a commit is not what its id says.
            ObjectNotFoundError: The storage lacks an object that a ref needs.
            AlreadyExistsError: A repository of that name has branches at other commits.
        """
        from graveler.refs.dump import read_dump

        file = args.file_path(file, "file")
        name = None if name is None else args.text(name, "name")
        storage = None if storage is None else args.storage_text(storage)
        contents = read_dump(Path(file))
        header = contents.header
        name = check_repository(name or header.repository)
        if not self._catalogue.has(name):
            root = storage or header.storage or self.default_storage(name)
            if not take_over:
                self._storages.check_unowned(absolute(root))
            # before the repository is made: the collection of an empty one would delete the storage
            ranges = RangeStore(self._open_store(absolute(root)), self._cache)
            found = use_cases.dumps.check_storage(
                ranges,
                Path(file),
                contents,
                known={},
                missing=args.optional(args.count, missing, "missing"),
            )
            repository = self.create_repository(
                name,
                storage=root,
                default_branch=header.default_branch,
                exist_ok=True,
                splitting=SPLITTING.read(header.splitting, "splitting of the dump"),
                take_over=take_over,
                adopt=True,
                known_id=header.storage_id or storage_id(self._ids.unique(), old=True),
            )
            repository._restored(Path(file), missing, found)
        else:
            repository = self.repository(name)
            repository.restore_refs(file, missing=missing)
        return repository

    def import_lakefs(
        self,
        source: PathText,
        repository: str,
        *,
        refs: str | Path | None = None,
        allow: Iterable[str] = (),
        rename: Mapping[str, str] | None = None,
        default_branch: str = "",
        storage: PathText | None = None,
        etags: bool = True,
        skip_odd_paths: bool = False,
        expire_missing: bool = False,
        progress: "Progress | None" = None,
    ) -> "Imported":
        """Import the history of a lakeFS repository into a repository; files stay where they are.

        Commits, branches, tags and trees come from the files that lakeFS keeps in its storage
        namespace, and from a dump of its refs. May be repeated: an import resumes after an
        interruption, and reads only what is new in lakeFS. A branch follows the branch in lakeFS
        unless it has commits of its own.

        Args:
            source: The storage namespace: ``s3://bucket/prefix`` or a folder.
            repository: Name of the repository; it is made if the lake has none of that name.
            refs: File of the JSON that ``lakectl refs-dump`` printed; by default the one that the
                dump left in the namespace.
            allow: Places to declare first, as ``repository.links.allow`` does: the namespace, and
                those of files that lakeFS had imported.
            rename: New names of branches and tags, by their names in lakeFS; "" leaves one out.
            default_branch: Default branch of a new repository; by default main, master or the only
                branch.
            storage: Root URI of the objects of a new repository.
            etags: Whether the ETags in lakeFS match the present objects. They do not match if the
                namespace was copied, or if its bucket encrypts with KMS and clients wrote to it
                directly.
            skip_odd_paths: Leave out entries whose paths have a part that is empty, ``.`` or
                ``..``, such as the folder markers of Hadoop.
            expire_missing: Declare commits expired if their trees lack files.
            progress: Called with the progress; None: not reported.

        Raises:
            ObjectNotFoundError: There is no dump, or a file that it needs is missing.
            CorruptionError: A file is damaged, or not what its id says.
            InvalidInputError: A name, a path, an entry or a commit is not valid in graveler.
            PermissionDeniedError: A file is outside the declared places.
            AlreadyExistsError: Branches or tags of the same names are at other commits.
            ProtectedBranchError: A rule of the repository concerns a branch.
        """
        from graveler.lake.from_lakefs import LakefsSource
        from graveler.lakefs import Terms, import_lakefs

        name = check_repository(args.text(repository, "repository"))
        places = args.texts(allow, "allow")
        terms = Terms(
            args.flag(etags, "etags"),
            args.flag(skip_odd_paths, "skip_odd_paths"),
            args.flag(expire_missing, "expire_missing"),
        )
        args.optional(args.function, progress, "progress")
        lakefs = LakefsSource.of(self._open_store, source, refs, rename)
        if name not in self.repositories():
            own = args.storage_text(storage) if storage else self.default_storage(name)
            lakefs.check_new(places, own)
            branch = args.text(default_branch, "default_branch", empty=True)
            self.create_repository(
                name,
                storage=storage,
                default_branch=branch or lakefs.refs.default_branch(),
                exist_ok=True,
            )
        target = self.repository(name)
        for place in places:
            target.links.allow(place)
        return import_lakefs(
            target.stores,
            lakefs.namespace,
            lakefs.root,
            lakefs.refs,
            terms=terms,
            progress=progress or no_progress,
        )

    def _taken(self, name: str, *, exist_ok: bool) -> Repository:
        if not exist_ok:
            raise AlreadyExistsError(f"repository {name!r} exists: choose another name") from None
        return self.repository(name)

    def check_kv(self) -> None:
        """Check that the key-value store has not lost every repository.

        Raises:
            KVOutdatedError: It has no repository, and the lake's storage is not empty.
        """
        if self._witnesses is not None and next(self._catalogue.names(), None) is None:
            self._storages.check_empty()

"""The upkeep of a repository: packs, garbage collection, checks, and dumps of its refs."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from graveler import repository as use_cases
from graveler.base import arguments as args
from graveler.base.arguments import BranchLike
from graveler.errors import GravelerError, InvalidInputError
from graveler.lake.history import History
from graveler.reads.stores import Stores
from graveler.refs.pack_rule import PACKING
from graveler.refs.settings import CHECKED, LINK_PLACES, UNSOUND, Checked, Setting
from graveler.repository.witness.witness import Witness

if TYPE_CHECKING:
    from graveler.base.background import Progress
    from graveler.fsck.check import FsckReport
    from graveler.gc.collector import GarbageCollector
    from graveler.gc.marks import Mark
    from graveler.lake.maintenance import Maintenance, Packing
    from graveler.reads.soundness import Depth, FileCheck
    from graveler.refs.dump import Contents
    from graveler.repository.commits.packing import PackResult
    from graveler.repository.wholeness import Wholeness
    from graveler.runs.runs import Runs


class Upkeep(History):
    """What keeps a repository small, sound and restorable."""

    def __init__(
        self, stores: Stores, witness: Witness | None = None, *, default_storage: bool = True
    ) -> None:
        super().__init__(stores)
        self._witness = witness
        self._default_storage = default_storage

    @cached_property
    def runs(self) -> "Runs":
        """The pipeline runs."""
        from graveler.runs.runs import Runs

        return Runs(self.stores)

    @property
    def packing(self) -> "Packing":
        """The rule that decides when its branches are packed."""
        from graveler.lake.maintenance import Packing

        return Packing(self.stores)

    def pack(
        self,
        branch: str | BranchLike = "main",
        *,
        everything: bool = False,
        limit: int | None = None,
        message: str = "",
        committer: str = "",
    ) -> "PackResult":
        """Rewrite small and badly cut ranges of a branch's head, in a commit that changes no path.

        It may run while others write and publish, and may be repeated.

        Args:
            branch: The branch.
            everything: Cut all ranges again, after a change of the splitting policy.
            limit: Bytes of records after which the rest is left for the next pack.
            message: Message of the commit; "" for one that counts ranges.
            committer: Name of the committer; "" stands for the user of the process.

        Raises:
            RefNotFoundError: No such branch.
            FencedError: The branch belongs to a run.
        """
        args.flag(everything, "everything"), args.optional(args.count, limit, "limit")
        args.commit_texts(message, committer)
        return use_cases.packing.pack(
            self.stores,
            args.branch_text(branch, "branch", within=self.stores),
            everything=everything,
            limit=limit,
            message=message,
            committer=committer,
        )

    def maintain(
        self,
        *,
        pack: bool = True,
        reap: bool = True,
        gc: bool = True,
        dry_run: bool = False,
        progress: "Progress | None" = None,
    ) -> "Maintenance":
        """Do the daily maintenance, and return its result.

        Branches are packed by the rule (`packing`). Unfinished runs are reaped (`Runs.reap`), and
        then branches whose time to live is over (`Repository.expire_branch`). If
        there is a retention rule, garbage is collected with the default times
        (`GarbageCollector.run`). A part that fails does not stop the others: `Maintenance.errors`
        has its error, and `Maintenance.check` raises it.

        Args:
            pack: Pack branches.
            reap: Reap runs and branches.
            gc: Collect garbage.
            dry_run: Only return what would be done.
            progress: Called with the progress of garbage collection.
        """
        args.flag(pack, "pack"), args.flag(reap, "reap"), args.flag(gc, "gc")
        args.flag(dry_run, "dry_run"), args.optional(args.function, progress, "progress")
        from graveler.lake.maintenance import Maintenance, end_branches, pack_due

        done = Maintenance(dry_run)
        if pack:
            pack_due(self.stores, done)
        if reap:
            with done.part("reaping of runs"):
                done.reaped += self.runs.reap(dry_run=dry_run)
            with done.part("end of branches"):
                end_branches(self.stores, self.runs.list(live=True), done)
        if gc:
            with done.part("garbage collection"):
                done.marks += self._collected(progress, dry_run=dry_run)
        return done

    def _collected(self, progress: "Progress | None", *, dry_run: bool) -> "Sequence[Mark]":
        garbage = self.gc
        if garbage.rules.keeps_everything:
            return ()
        if dry_run:
            return [garbage.mark(dry_run=True, progress=progress)]
        return garbage.run(progress=progress)

    @property
    def gc(self) -> "GarbageCollector":
        """Garbage collection: retention rules, marks and sweeps.

        Raises:
            KVOutdatedError: The key-value store has lost records, so needed files would be
                collected.
        """
        from graveler.gc.collector import GarbageCollector

        self.check_kv()
        return GarbageCollector(self.stores, runs=self._needed_commits)

    def _needed_commits(self) -> Iterator[str]:
        from graveler.ingest.quarantine import needed_commits

        yield from self.runs.needed_commits()
        yield from (commit for _, commit in needed_commits(self.stores))

    def fsck(
        self,
        *,
        objects: "Depth" = "exist",
        progress: "Progress | None" = None,
        rate: float | None = None,
        resume: bool = False,
        check: "FileCheck | None" = None,
    ) -> "FsckReport":
        """Check everything that refs and runs need; report what is missing or damaged.

        Nothing is repaired; `last_check` has the result's time. A check of checksums that was stopped can be resumed, also on another
        host.

        Args:
            objects: ``exist`` checks the presence and size of every object, ``checksum`` reads all
                objects, ``none`` leaves them out.
            progress: Called with the progress.
            rate: Bytes a second at which ``checksum`` reads; None for no limit.
            resume: Do not read objects again that a stopped check found sound.
            check: Checks ranges and objects, as ``graveler.spark`` does, without `rate` and `resume`; None:
                this process does.

        Raises:
            InvalidInputError: `objects` or `rate` is not valid.
        """
        from graveler.fsck.check import fsck
        from graveler.ingest.quarantine import needed_commits
        from graveler.reads.soundness import Depth

        args.choice(objects, "objects", get_args(Depth)), args.flag(resume, "resume")
        if args.optional(args.real, rate, "rate") == 0:
            raise InvalidInputError("rate=0: give how many bytes are read in a second, or None")
        candidates = {
            f"run {record.key}": record.candidate
            for record in self.runs.list("PUBLISHING")
            if record.candidate
        }  # no branch holds them yet
        for label, commit in needed_commits(self.stores):
            candidates[f"{label}, {commit[:12]}"] = commit
        report = fsck(
            self.stores,
            objects=objects,
            also=candidates,
            progress=args.optional(args.function, progress, "progress"),
            rate=rate,
            resume=resume,
            check=check,
        )
        unsound = self.stores.refs.settings.get(UNSOUND)
        if unsound and report.sound and objects != "none":
            self.stores.refs.settings.change(UNSOUND, lambda _: False)
        ended = Checked(self.stores.clock.now(), objects, len(report.problems))
        with suppress(GravelerError):  # what cannot be written can be checked
            self.stores.refs.settings.change(CHECKED, lambda _: ended)
        return report

    @property
    def last_check(self) -> Checked | None:
        """When `fsck` last ended, how deep it went, and how many problems it found; None: never."""
        return self.stores.refs.settings.get(CHECKED)

    def check_kv(self) -> None:
        """Check that the key-value store and the storage belong together.

        Raises:
            KVOutdatedError: The key-value store has lost records, for example because it was
                restored from an old backup.
            StorageMismatchError: The storage is not the repository's, or an older copy of it.
            BackendUnavailableError: The storage does not answer.
        """
        if self._witness is not None:
            self._witness.check()

    def dump_refs(self, file: str | Path) -> "Contents":
        """Write branches, tags, protection, required gates and all commits they reach to a file.

        The dump does not have staged writes, ends of branches, runs, the log of moves, or objects. The objects stay
        in the storage. The branches of runs are restored as hidden branches without a run.

        Args:
            file: The file to write; an existing file is replaced.

        Raises:
            StateError: The storage is on Keep. Back up the key-value store, which names its objects.
        """
        file = args.file_path(file, "file")
        storage = "" if self._default_storage else self.stores.storage
        return use_cases.dumps.dump(
            self.stores, Path(file), storage=storage, settings=self._dumped_settings()
        )

    @staticmethod
    def _dumped_settings() -> "list[Setting[Any]]":
        from graveler.gc.rules import RETENTION

        return [LINK_PLACES, PACKING, RETENTION]

    def expire_missing(self, *, missing: int | None = None) -> "Wholeness":
        """Record commits whose trees are incomplete as expired, and those that are whole again as kept.

        A commit of staged writes whose bytes are missing will be refused, unless they come back.

        Args:
            missing: How many may be incomplete; by default 5 % of them, and none that a branch or a
                tag names.

        Raises:
            ObjectNotFoundError: More are incomplete. Nothing was written.
            CorruptionError: A part is damaged, not missing. Nothing was written.
        """
        from graveler.repository import wholeness

        found = wholeness.check_refs(
            self.stores, missing=args.optional(args.count, missing, "missing")
        )
        wholeness.record_missing(self.stores, found)
        return found

    def restore_refs(self, file: str | Path, *, missing: int | None = None) -> "Contents":
        """Restore a dump of refs; existing refs and settings stay.

        The repository is the one of the dump, or one without history over the same storage. Every
        id is recomputed before anything is written. May be repeated.

        Args:
            file: The dump.
            missing: As for `expire_missing`.

        Raises:
            CorruptionError: The file is damaged, or a commit is not what its id says.
            ObjectNotFoundError: The storage lacks more than is accepted.
            AlreadyExistsError: Branches or tags of the same names are at other commits.
        """
        file = args.file_path(file, "file")
        args.optional(args.count, missing, "missing")
        return self._restored(Path(file), missing)

    def _restored(
        self, file: Path, missing: int | None, found: "Wholeness | None" = None
    ) -> "Contents":
        from graveler.ingest.quarantine import record_restored

        contents = use_cases.dumps.restore(
            self.stores, file, settings=self._dumped_settings(), missing=missing, found=found
        )
        record_restored(self.stores)
        return contents

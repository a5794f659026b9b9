"""Garbage collection of one repository: rules, marks, sweeps."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import timedelta

from graveler.base.arguments import Duration, duration, flag, function, optional, real, text
from graveler.base.arguments import count as whole
from graveler.base.background import Progress
from graveler.base.clock import from_unix_us, unix_us
from graveler.committed.references import ReadRanges, by_one_process
from graveler.errors import InvalidInputError, StateError, ThrottledError
from graveler.gc.condemnation import close_lost, condemn, withdraw
from graveler.gc.lease import LEASE_SECONDS, Lease
from graveler.gc.marks import WAITING, Kind, Mark, Marks, MarkState, store_now
from graveler.gc.reachability.roots import RunRoots
from graveler.gc.reachability.scratch import Scratch
from graveler.gc.reachability.survey import Survey
from graveler.gc.rules import ADOPTION, RETENTION, Adoptable, Adoption, Keep, Retention
from graveler.gc.sweep import Sweep
from graveler.reads.stores import Stores
from graveler.refs.settings import UNSOUND

_LOOKS = 20

GRACE = timedelta(days=1)
"""How long a new object is safe: longer than the time from any write to its commit."""

WINDOW = timedelta(days=7)
"""Time from a mark to its sweep: longer than any operation, and enough to notice a mistake."""


class GarbageCollector:
    """Condemns objects that nothing needs, and deletes them after the undelete window.

    Args:
        stores: The repository.
        runs: Returns the runs that are not over; called for each survey.
        lease_seconds: See `graveler.gc.lease`.
        read: Reads the ranges that kept commits name.
    """

    def __init__(
        self,
        stores: Stores,
        *,
        runs: RunRoots,
        lease_seconds: float = LEASE_SECONDS,
        read: ReadRanges = by_one_process,
    ) -> None:
        self._stores = stores
        self._runs = runs
        self._read = read
        self._lease_seconds = lease_seconds
        self._marks = Marks(
            stores.kv, stores.uid, stores.objects, clock=stores.clock, ids=stores.ids
        )

    def reading(self, read: ReadRanges) -> "GarbageCollector":
        """Return a collector of the same repository that reads ranges by `read`.

        Args:
            read: Called with the ranges that kept commits name.
        """
        return GarbageCollector(
            self._stores, runs=self._runs, lease_seconds=self._lease_seconds, read=read
        )

    @property
    def rules(self) -> Retention:
        """The retention rules; without any, everything that a ref reaches is kept."""
        return self._stores.refs.settings.get(RETENTION)

    def keep(
        self, pattern: str | None = None, *, days: float | None = None, count: int | None = None
    ) -> Retention:
        """Set how much of the history of the branches that match `pattern` is kept.

        A commit is kept if either number keeps it. Without both, everything is kept. Heads, tagged
        commits, and the commit that was the head `days` days ago are always kept.

        Args:
            pattern: A shell pattern of branch names (``main``, ``run-*``); None for the default.
            days: Keep commits younger than this many days.
            count: Keep this many of the latest commits.

        Returns:
            All rules.
        """
        pattern = None if pattern is None else text(pattern, "pattern")
        optional(real, days, "days"), optional(whole, count, "count", least=1)
        return self._stores.refs.settings.change(
            RETENTION, lambda rules: rules.changed(pattern, Keep(days, count))
        )

    def forget(self, pattern: str | None = None) -> Retention:
        """Remove the rule of `pattern`, or the default; return all rules."""
        pattern = None if pattern is None else text(pattern, "pattern")
        return self._stores.refs.settings.change(RETENTION, lambda rules: rules.without(pattern))

    def marks(self) -> Iterator[Mark]:
        """Yield the marks, oldest first."""
        return self._marks.list()

    def get(self, mark: str) -> Mark:
        """Return a mark, or raise NotFoundError."""
        return self._marks.get(text(mark, "mark"))

    def mark(
        self,
        *,
        grace: Duration = GRACE,
        window: Duration = WINDOW,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Mark:
        """Condemn the objects that nothing needs; delete nothing.

        Args:
            grace: Age below which objects and commits are not condemned.
            window: Time from the mark to its sweep.
            dry_run: Only return what would be condemned.
            progress: Called with the progress; None: not reported.

        Raises:
            CorruptionError: Something is missing or damaged. Nothing was condemned.
            StateError: Another mark was begun at the same time, or another repository has the
                same storage.
        """
        grace, window = duration(grace, "grace"), duration(window, "window")
        flag(dry_run, "dry_run"), optional(function, progress, "progress")
        if grace < timedelta(0) or window < timedelta(0):
            raise InvalidInputError(f"grace {grace}, window {window}: neither can be negative")
        self._check_storage()
        stores, seconds = self._stores, grace.total_seconds()
        with Scratch() as scratch:
            if dry_run:
                now = unix_us(stores.clock.now())
                mark = Mark("", MarkState.MARKING, now, window.total_seconds(), seconds)
            else:
                for earlier in list(self._marks.list()):
                    if earlier.state is MarkState.MARKING:
                        self._supersede(earlier)
                mark = self._marks.create(window=window.total_seconds(), grace=seconds)
            survey = self._survey(scratch, seconds, progress)
            return condemn(stores, survey, self._marks, self.rules, mark, dry=dry_run)

    def adopt(self, *, agree: bool = False) -> Adoptable:
        """List the unnamed files without a storage id in their addresses, or adopt the listed ones.

        Version 0.2 named its files so, and other programs may do so too. Beside files of others
        they are collected only after this method has listed them and was called again with `agree`.

        Args:
            agree: Adopt the files that the last call listed. Younger files are not adopted. A file that
                is put within the second of the call is neither listed nor adopted.

        Raises:
            StateError: `agree` is set, and nothing was listed yet.
        """
        flag(agree, "agree")
        settings = self._stores.refs.settings

        def agreed(known: Adoption) -> Adoption:
            if not known.listed:
                raise StateError("nothing was listed yet: call `graveler gc adopt` first, and look")
            return replace(known, agreed=known.listed)

        if agree:
            settings.change(ADOPTION, agreed)
            return Adoptable()
        with Scratch() as scratch:
            survey = self._survey(scratch, 0, None)
            survey.keep_commits(self.rules)
            for _ in survey.data():
                pass  # the survey notes the old ones
            # stores may have whole seconds: a file of the same second may be younger than the list
            files = [file for file in scratch.old() if file[2] < survey.now]
        settings.change(ADOPTION, lambda known: replace(known, listed=survey.now))
        return Adoptable(tuple(key.decode() for key, _, _ in files), sum(file[1] for file in files))

    def sweep(self, mark: str, *, dry_run: bool = False, progress: Progress | None = None) -> Mark:
        """Delete what `mark` condemned and a new survey finds unneeded. Idempotent.

        If the key-value store was restored from a backup, it may not know that the mark was
        swept. Such a mark is closed as ``lost``, and nothing is deleted.

        Args:
            mark: Id of the mark.
            dry_run: Only return what would be deleted now; the window need not be over.
            progress: Called with the progress; None: not reported.

        Raises:
            StateError: Its window is not over, its state does not allow it, or another sweep
                is running.
            CorruptionError: Something is missing or damaged. Nothing was deleted.
        """
        mark = text(mark, "mark")
        flag(dry_run, "dry_run"), optional(function, progress, "progress")
        self._check_storage()
        condemned = self._marks.get(mark)
        if condemned.state in (MarkState.SWEPT, MarkState.LOST):
            return condemned
        if dry_run:
            return self._look_and_delete(condemned, None, progress, lambda _: True) or condemned
        self._check_ripe(condemned)
        if self._stores.refs.settings.get(UNSOUND):
            raise StateError(
                "parts of trees are missing: nothing is deleted until fsck finds no problem"
            )
        with Lease(
            self._stores.kv,
            self._stores.uid,
            f"sweep of mark {mark}",
            clock=self._stores.clock,
            ids=self._stores.ids,
            seconds=self._lease_seconds,
        ) as lease:
            condemned = self._marks.move(
                mark, WAITING, lambda current: replace(current, state=MarkState.SWEEPING)
            )
            if self._marks.is_lost(condemned):
                return close_lost(self._stores, self._marks, condemned)
            self._stores.moving(afresh=True)  # an older backup lacks what is deleted
            done = self._sweep(condemned, lease, progress)
            swept = store_now(self._stores.objects, self._stores.uid)
            done = self._marks.move(
                mark,
                (MarkState.SWEEPING,),
                lambda current: replace(
                    current,
                    state=MarkState.SWEPT,
                    swept=swept,
                    freed=done.freed,
                    spared=done.spared,
                    tokens=(),
                ),
            )
        self._marks.forget_pages(mark)
        return done

    def run(
        self,
        *,
        grace: Duration = GRACE,
        window: Duration = WINDOW,
        progress: Progress | None = None,
    ) -> list[Mark]:
        """Mark, then sweep every mark whose window is over; return the new and the swept marks."""
        new = self.mark(grace=grace, window=window, progress=progress)
        ripe = [
            earlier.id
            for earlier in list(self._marks.list())
            if earlier.state in WAITING and self._is_ripe(earlier)
        ]
        swept = {identifier: self.sweep(identifier, progress=progress) for identifier in ripe}
        return [swept.pop(new.id, new), *swept.values()]

    def undelete(self, mark: str) -> Mark:
        """Withdraw a condemnation, so that its objects can be named again. Idempotent.

        The next mark condemns the objects that are still unnamed again, with a new window.

        Raises:
            StateError: The mark is being swept, or was.
        """
        mark = text(mark, "mark")
        condemned = self._marks.get(mark)
        if condemned.state is MarkState.CONDEMNED and self._marks.is_lost(condemned):
            close_lost(self._stores, self._marks, condemned)
        undone = self._marks.move(
            mark,
            (MarkState.CONDEMNED, MarkState.MARKING, MarkState.UNDELETED),
            lambda current: replace(current, state=MarkState.UNDELETED),
        )
        withdraw(self._stores, mark)
        self._marks.forget_pages(mark)
        return undone

    def _sweep(self, mark: Mark, lease: Lease, progress: Progress | None) -> Mark:
        epochs = self._stores.refs.epochs
        for _ in range(_LOOKS):
            epoch = epochs.begin(
                mark.id, names=self._marks.folder(mark.id), pages=mark.pages.get(Kind.DATA, 0)
            )

            def decide(spared: int) -> bool:
                nonlocal epoch
                decided = epochs.decide(epoch, spared)
                epoch = decided or epoch
                return decided is not None

            done = self._look_and_delete(mark, lease, progress, decide)
            if done is not None:
                if not epochs.end(epoch):
                    raise StateError(f"sweep of mark {mark.id}: another sweep took over")
                return done
        raise ThrottledError(
            f"sweep of mark {mark.id}: writers named files that it lists during each of {_LOOKS} "
            "looks: repeat it later"
        )

    def _look_and_delete(
        self,
        mark: Mark,
        lease: Lease | None,
        progress: Progress | None,
        decide: Callable[[int], bool],
    ) -> Mark | None:
        with Scratch() as scratch:
            survey = self._survey(scratch, mark.grace, progress, forsaken=mark.tokens)
            return Sweep(self._stores, self._marks, mark, survey, lease).run(self.rules, decide)

    def _survey(
        self,
        scratch: Scratch,
        grace: float,
        progress: Progress | None,
        forsaken: Collection[str] = (),
    ) -> Survey:
        return Survey(
            self._stores,
            scratch,
            self._runs,
            grace=grace,
            progress=progress,
            forsaken=forsaken,
            read=self._read,
        )

    def _supersede(self, mark: Mark) -> None:
        try:
            self._marks.move(
                mark.id,
                (MarkState.MARKING,),
                lambda current: replace(current, state=MarkState.SUPERSEDED),
            )
        except StateError:
            return  # it was finished at the same time
        self._marks.forget_pages(mark.id)

    def _is_ripe(self, mark: Mark) -> bool:
        now = store_now(self._stores.objects, self._stores.uid)
        return (now - mark.marked) / 1e6 >= mark.window

    def _check_ripe(self, mark: Mark) -> None:
        if mark.state is MarkState.CONDEMNED and not self._is_ripe(mark):
            raise StateError(
                f"mark {mark.id} may be swept from {mark.ripe:%Y-%m-%d %H:%M:%S} UTC on, by the "
                f"clock of {self._stores.storage} (now "
                f"{from_unix_us(store_now(self._stores.objects, self._stores.uid)):%Y-%m-%d %H:%M:%S}"
                "): wait, or `graveler gc undelete` it and mark again with a shorter --window"
            )

    def _check_storage(self) -> None:
        for name, root in self._stores.neighbours():
            if root == self._stores.storage:
                raise StateError(
                    f"{self._stores.storage} is the storage of repository {name!r} too: each would "
                    "delete what the other one needs; give each a storage of its own"
                )

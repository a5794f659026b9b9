"""Wrong garbage collection and wrong borrowers."""

from tests.simulate.mutants.patch import Edit, Mutant, one_edit

MUTANTS: tuple[Mutant, ...] = (
    # garbage collection
    one_edit(
        "collection does not look at sealed tokens",
        "gc.reachability.roots:_tokens",
        "(record.staging_token, *record.sealed_tokens)",
        "(record.staging_token,)",
        "mark-staged",
    ),
    one_edit(
        "collection does not look at staged writes",
        "gc.reachability.roots:Roots._settle",
        "self._scratch.add_addresses(self._staged(token))",
        "pass",
        "mark-staged",
    ),
    one_edit(
        "a writer does not care that a table is condemned",
        "gc.files:Rescuer.__call__",
        "written = False",
        "return False",
        "sweep-write",
        "mark-write",
    ),
    one_edit(
        "a sweep deletes a table that it has not taken",
        "gc.sweep:Sweep._delete_table",
        "elif condemned:",
        "elif False:",
        "sweep-write",
    ),
    one_edit(
        "a sweep deletes again what one that died has deleted",
        "gc.sweep:Sweep._delete_table",
        "left = True if taken else self._is_left(identifier)",
        "left = True",
        "half-swept-write",
    ),
    one_edit(
        "a branch may name a commit that is condemned",
        "refs.commits:ExpiredCommits.check_nameable",
        "record = ",
        "return\n        record = ",
        "sweep-branch",
        "mark-branch",
    ),
    Mutant(
        "borrowed bytes are not guarded",
        (
            Edit(
                "repository.writes.borrowed:confirm",
                "lost = _lost(stores, {row.borrowed: row.epoch for row in borrowed}, now)",
                "lost = set()",
            ),
            Edit(
                "repository.commits.sealing:_Committer._check",
                "confirm(self._stores, tokens, rows, now=look.epoch)",
                "pass",
            ),
        ),
        ("sweep-borrow",),
    ),
    one_edit(
        "a borrower does not read the epoch again",
        "repository.writes.borrowed:confirm",
        "lost = _lost(stores, {row.borrowed: row.epoch for row in borrowed}, now)",
        "lost = set()",
        "sweep-borrow",
        "sweep-patch",
    ),
    one_edit(
        "a borrower trusts a running sweep",
        "repository.writes.borrowed:_lost",
        "if not now.sweeping and not changed:",
        "if not changed:",
        "sweep-borrow",
    ),
    one_edit(
        "a borrower trusts a sweep that is over",
        "repository.writes.borrowed:_lost",
        "return doomed | (changed - look_up(stores.objects, changed - doomed).keys())",
        "return doomed",
        "sweep-borrow",
    ),
    one_edit(
        "a sweep need not look again",
        "repository.writes.borrowed:_doomed",
        "return None if stores.refs.epochs.look_again(now) is None else set()",
        "return set()",
        "sweep-borrow",
    ),
    one_edit(
        "a sweep decides whatever was named while it looked",
        "refs.epochs:Epochs.decide",
        "self._raise(seen, replace(seen, spared=spared))",
        "self._raise(now := self.read(), replace(now, spared=spared))",
        "sweep-borrow",
    ),
    Mutant(
        "the epoch is raised after the look",
        (
            Edit(
                "gc.collector:GarbageCollector._sweep",
                "epoch = epochs.begin(\n",
                "epoch = (lambda *_, **__: epochs.read())(\n",
            ),
            Edit(
                "gc.collector:GarbageCollector._sweep",
                "decided = epochs.decide(epoch, spared)",
                "epoch = epochs.begin(mark.id, names=self._marks.folder(mark.id), "
                "pages=mark.pages.get(Kind.DATA, 0))\n"
                "                decided = epochs.decide(epoch, spared)",
            ),
        ),
        ("sweep-borrow",),
    ),
    one_edit(
        "the end of a sweep takes the epoch back",
        "refs.epochs:Epochs._raised",
        "number=now.number + 1",
        "number=now.number + (1 if new.mark else -1)",
        "sweep-borrow",
    ),
    one_edit(
        "a commit does not check what its rows borrow",
        "repository.commits.sealing:_Committer._check",
        "confirm(self._stores, tokens, rows, now=look.epoch)",
        "pass",
        "sweep-borrow-commit+1",
        "sweep-borrow-commit",
        deep=True,
    ),
    one_edit(
        "a commit of changes holds nothing",
        "repository.writes.borrowed:Hold.add",
        "self._stores.staging.set_many(self.token, [(row.key, row.value) for row in rows])",
        "pass",
        "sweep-patch",
    ),
    one_edit(
        "collection does not look at holds",
        "gc.reachability.roots:Roots.look_at_holds",
        "if token.startswith(HOLD):",
        "if False:",
        "sweep-patch",
    ),
)

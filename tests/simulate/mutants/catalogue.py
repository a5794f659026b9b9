"""Ways to get the protocol wrong. Every one must be found out."""

from tests.simulate.mutants.patch import Edit, Mutant

_PRESENT = '__import__("graveler.kv.store").kv.store.PRESENT'
_COMMIT = "repository.commits:_Committer"


def _one(name: str, where: str, old: str, new: str, *scenarios: str) -> Mutant:
    return Mutant(name, (Edit(where, old, new),), scenarios)


MUTANTS: tuple[Mutant, ...] = (
    # writers
    _one(
        "a writer is content with any token at its second look",
        "repository.writes:StagedWrites._stage",
        "if record.staging_token == token:",
        "if record.staging_token:",
        "write-commit",
    ),
    _one(
        "a write is acknowledged before the second look",
        "repository.writes:StagedWrites._stage",
        "            record = self._record()\n            if record",
        "            return\n            if record",
        "write-commit",
    ),
    _one(
        "a writer repeats its write under the dead token",
        "repository.writes:StagedWrites._stage",
        "token = record.staging_token",
        "token = token if attempt else record.staging_token",
        "write-commit",
    ),
    # publishers
    _one(
        "a landing trusts a head whose record was rewritten",
        "publishing.candidacy:_attempt",
        "if moved or not judged:",
        "if tip.head.id != seen.head.id or not judged:",
        "tick-quarantine",
    ),
    _one(
        "a published hour takes another commit",
        "ingest.ticker:Ticker._keep",
        "if record.published or commit.id",
        "if commit.id",
        "tick-repair",
    ),
    # readers
    _one(
        "a reader does not look again",
        "reads.view:value_on_branch",
        "return settled(stores, name, read)",
        "return read(stores.refs.branches.get(name))",
        "sealed-left",
        "write-commit-read",
    ),
    _one(
        "a lister does not look again",
        "reads.view:branch_snapshot",
        "settled(stores, name, copy)",
        "copy(stores.refs.branches.get(name))",
        "write-commit-list",
    ),
    _one(
        "a listing settles each row by itself",
        "reads.view:branch_snapshot",
        "        yield rows\n",
        """
        def settled_rows(position):
            def read(record):
                tree = stores.refs.commits.get(record.commit_id).metarange
                staged = stores.staging.scan(newest_first(record), position)
                return next(overlay(staged, scan(stores.ranges, tree, position)), None)

            while (row := settled(stores, name, read)) is not None:
                yield row
                position = row[0] + b"\\0"

        yield settled_rows
""",
        "spooled-listing",
    ),
    _one(
        "the second look is the first record",
        "reads.view:settled",
        "now = stores.refs.branches.get(name)",
        "now = record",
        "write-commit-read",
    ),
    _one(
        "the second look sees the live token only",
        "reads.view:settled",
        "(now.staging_token, now.sealed_tokens, now.commit_id) == (\n"
        "            record.staging_token,\n"
        "            record.sealed_tokens,\n"
        "            record.commit_id,\n"
        "        )",
        "now.staging_token == record.staging_token",
        "sealed-left",
        "write-commit-read",
    ),
    _one(
        "a reader asks the oldest token first",
        "reads.view:newest_first",
        "[record.staging_token, *reversed(record.sealed_tokens)]",
        "[*record.sealed_tokens, record.staging_token]",
        "sealed-left",
    ),
    _one(
        "a staged deletion shows what was committed",
        "reads.view:value_on_branch",
        "if write is not None:",
        "if write is not None and staged_value(write) is not None:",
        "delete-committed",
    ),
    # sealing
    _one(
        "nothing is sealed",
        "repository.commits:_seal",
        "staging_token=stores.ids.unique()",
        "staging_token=live",
        "write-commit",
    ),
    _one(
        "sealing forgets what was sealed before",
        "repository.commits:_seal",
        "(*record.sealed_tokens, live)",
        "(live,)",
        "sealed-left",
    ),
    _one(
        "sealing puts the newest token first",
        "repository.commits:_seal",
        "(*record.sealed_tokens, live)",
        "(live, *record.sealed_tokens)",
        "sealed-left",
    ),
    _one(
        "a branch is moved without a condition",
        "refs.mover:move",
        "refs.branches.replace(new, predicate",
        f"refs.branches.replace(new, {_PRESENT}",
        "write-two-commits",
        "each-writes-and-commits",
    ),
    # committing
    _one(
        "a commit lands without a condition",
        "refs.mover:advance",
        "refs.branches.replace(record, predicate",
        f"refs.branches.replace(record, {_PRESENT}",
        "write-two-commits",
        "each-writes-and-commits",
    ),
    _one(
        "a commit clears every sealed token",
        f"{_COMMIT}._build",
        "sealed_tokens=tip.record.sealed_tokens[len(tokens) :]",
        "sealed_tokens=()",
        "each-writes-and-commits",
    ),
    _one(
        "a commit gives a token back",
        f"{_COMMIT}._build",
        "sealed_tokens=tip.record.sealed_tokens[len(tokens) :]",
        "sealed_tokens=tip.record.sealed_tokens",
        "write-commit",
    ),
    _one(
        "a retry keeps the base it began with",
        f"{_COMMIT}._build",
        "self._applied(tip.head, tokens)",
        "self._applied(self._stores.refs.commits.get(self._seen.commit_id), tokens)",
        "each-writes-and-commits",
        "merge-commit",
    ),
    _one(
        "a retry keeps the parent it began with",
        f"{_COMMIT}._build",
        "parents=(tip.head,)",
        "parents=(self._stores.refs.commits.get(self._seen.commit_id),)",
        "each-writes-and-commits",
        "merge-commit",
    ),
    _one(
        "a commit lets the oldest write win",
        f"{_COMMIT}._grown",
        "newest_first = tokens[::-1]",
        "newest_first = tokens",
        "sealed-left",
    ),
    _one(
        "a commit leaves deletions out",
        f"{_COMMIT}._grown",
        "self._changes(stores.staging.scan(newest_first))",
        'self._changes(i for i in stores.staging.scan(newest_first) if i[1] != b"\\x00")',
        "delete-committed",
    ),
    _one(
        "tokens are dropped before the commit is in",
        f"{_COMMIT}._build",
        "return replace(rest, commit_id=made.id)",
        "self._stores.staging.drop(*tokens); return replace(rest, commit_id=made.id)",
        "write-commit-read",
        "write-commit+1",
    ),
    _one(
        "committed tokens are never dropped",
        f"{_COMMIT}.run",
        "self._stores.staging.drop(*self._tokens)",
        "pass",
        "write-commit",
    ),
    _one(
        "finished work is kept whatever the head has become",
        f"{_COMMIT}._only_ours_since",
        "return parent.id == built.parent.id and landed + tokens == built.tokens",
        "return True",
        "merge-commit",
        "each-writes-and-commits",
    ),
    _one(
        "finished work is kept though its tokens were being dropped",
        f"{_COMMIT}._applied",
        "if overlap(tokens, now.sealed_tokens) != tokens:",
        "if False:",
        "each-writes-and-commits",
        "write-two-commits",
    ),
    _one(
        "a committer whose writes were discarded returns the head",
        f"{_COMMIT}._taken",
        "raise NoChangesError(",
        "return tip.head\n        raise NoChangesError(",
        "reset-commit",
    ),
    Mutant(
        "the commit record is written when the branch names it",
        (
            Edit(
                "refs.commits:Commits.add",
                "self._kv.set(self._partition, _PREFIX + commit.id.encode(), record)",
                "Commits._later = lambda: self._kv.set("
                "self._partition, _PREFIX + commit.id.encode(), record)",
            ),
            Edit(
                "refs.mover:advance",
                "    except PreconditionFailedError:",
                "        type(refs.commits)._later()\n    except PreconditionFailedError:",
            ),
        ),
        ("write-commit-read", "write-commit+1"),
    ),
    # lost replies
    _one(
        "after a lost reply any record counts as ours",
        "refs.branches:Branches._is_written",
        "if record is not None and record.nonce == written.nonce:",
        "if record is not None:",
        "write-commit+1",
    ),
    _one(
        "a write whose reply was lost counts as made",
        "refs.branches:Branches._write",
        "unknown = error",
        "return",
        "write-commit+1",
    ),
    _one(
        "a commit whose reply was lost counts as landed",
        "refs.mover:advance",
        "now = _read_back(refs, record.name, error)",
        "return True",
        "each-writes-and-commits+1",
        "write-two-commits+1",
    ),
    # resets, branches, tags
    Mutant(
        "a reset keeps the live token",
        (
            Edit(
                "repository.branches:reset",
                "dropped = (record.staging_token, *record.sealed_tokens)",
                "dropped = record.sealed_tokens",
            ),
            Edit(
                "repository.branches:reset",
                "staging_token=token, sealed_tokens=()",
                "sealed_tokens=()",
            ),
        ),
        ("reset-sealed",),
    ),
    Mutant(
        "a reset leaves what is sealed",
        (
            Edit(
                "repository.branches:reset",
                "dropped = (record.staging_token, *record.sealed_tokens)",
                "dropped = (record.staging_token,)",
            ),
            Edit("repository.branches:reset", ", sealed_tokens=()", ""),
        ),
        ("reset-sealed",),
    ),
    _one(
        "a reset writes without a condition",
        "repository.branches:reset",
        "move(stores.refs, name, change,",
        f"stores.refs.branches.replace(change(stores.refs.branches.get(name)), {_PRESENT})\n"
        "        (lambda *_, **__: None)(stores.refs, name, change,",
        "reset-commit",
    ),
    _one(
        "a branch is deleted without a condition",
        "refs.branches:Branches.delete",
        "self._kv.delete_if(self._partition, branch_key(record.name), predicate)",
        "self._kv.delete(self._partition, branch_key(record.name))",
        "delete-branch",
    ),
    _one(
        "what is staged on a deleted branch stays",
        "repository.branches:delete_branch",
        "stores.staging.drop(*tokens)",
        "pass",
        "delete-branch",
    ),
    _one(
        "a branch is made without a condition",
        "refs.branches:Branches.create",
        "ABSENT, action",
        "(ABSENT if self.find(record.name) is None else " + _PRESENT + "), action",
        "two-creators",
    ),
    _one(
        "a tag is set without a condition",
        "refs.refs:Tags.create",
        "self._kv.set_if(self._partition, key, commit_id.encode(), ABSENT)",
        "self._kv.set(self._partition, key, commit_id.encode())",
        "tag-commit",
    ),
    # merging
    _one(
        "the base of a merge is the target's head",
        "repository.merges:build_merge",
        "bases = merge_start(stores, source, dest)",
        "bases = Bases.one(dest.metarange)",
        "two-merges",
    ),
    _one(
        "a merge starts from one of several bases",
        "repository.merges:find_bases",
        "Bases(best, bases)",
        "Bases(best[:1], bases)",
        "criss-cross",
    ),
    _one(
        "a merge takes what any one base has for what all have",
        "committed.bases:BaseValues.merged",
        "if len(set(identities)) == 1:",
        "if identities:",
        "criss-cross",
    ),
    _one(
        "a merge lands without a condition",
        "publishing.landing:land",
        "record, tip.predicate,",
        f"record, {_PRESENT},",
        "two-merges",
        "merge-commit",
    ),
    _one(
        "a merge is landed on a head it was not made for",
        "publishing.landing:land",
        "record = build(tip)",
        'record = build(replace(tip, head=attempt.__dict__.setdefault("head", tip.head)))',
        "two-merges",
        "merge-commit",
    ),
    _one(
        "a merge discards what is staged",
        "publishing.landing:Tip.at",
        "commit_id=commit.id)",
        "commit_id=commit.id, sealed_tokens=())",
        "merge-sealed",
    ),
    # reverts and hard resets
    _one(
        "a revert gives back the tree from before",
        "repository.reverts:_land",
        "base=base.metarange",
        "base=tip.head.metarange",
        "revert-commit",
    ),
    _one(
        "a revert is landed on a head it was not made for",
        "publishing.landing:land",
        "record = build(tip)",
        'record = build(replace(tip, head=attempt.__dict__.setdefault("head", tip.head)))',
        "revert-commit",
    ),
    Mutant(
        "a hard reset keeps the live token",
        (
            Edit(
                "repository.branches:reset_hard",
                "drop(result.tip.record.staging_token, *result",
                "drop(*result",
            ),
            Edit(
                "repository.branches:reset_hard",
                "staging_token=token, sealed_tokens=()",
                "sealed_tokens=()",
            ),
        ),
        ("hard-reset-sealed",),
    ),
    Mutant(
        "a hard reset leaves what is sealed",
        (
            Edit(
                "repository.branches:reset_hard",
                ".staging_token, *result.tip.record.sealed_tokens)",
                ".staging_token)",
            ),
            Edit("repository.branches:reset_hard", ", sealed_tokens=()", ""),
        ),
        ("hard-reset-sealed",),
    ),
    # garbage collection
    _one(
        "collection does not look at sealed tokens",
        "gc.reachability.roots:_tokens",
        "(record.staging_token, *record.sealed_tokens)",
        "(record.staging_token,)",
        "mark-staged",
    ),
    _one(
        "collection does not look at staged writes",
        "gc.reachability.roots:Roots._settle",
        "self._scratch.add_addresses(self._staged(token))",
        "pass",
        "mark-staged",
    ),
    _one(
        "a writer does not care that a table is condemned",
        "gc.files:Rescuer.__call__",
        "written = False",
        "return False",
        "sweep-write",
        "mark-write",
    ),
    _one(
        "a sweep deletes a table that it has not taken",
        "gc.sweep:Sweep._delete_table",
        "elif condemned:",
        "elif False:",
        "sweep-write",
    ),
    _one(
        "a sweep deletes again what one that died has deleted",
        "gc.sweep:Sweep._delete_table",
        "left = True if taken else self._is_left(identifier)",
        "left = True",
        "half-swept-write",
    ),
    _one(
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
                "repository.borrowed:confirm",
                "lost = _lost(stores, {row.borrowed: row.epoch for row in borrowed})",
                "lost = set()",
            ),
            Edit(
                "repository.commits:_Committer._applied",
                "self._confirm(tokens)",
                "pass",
            ),
        ),
        ("sweep-borrow",),
    ),
    _one(
        "a borrower does not read the epoch again",
        "repository.borrowed:confirm",
        "lost = _lost(stores, {row.borrowed: row.epoch for row in borrowed})",
        "lost = set()",
        "sweep-borrow",
        "sweep-patch",
    ),
    _one(
        "a borrower trusts a running sweep",
        "repository.borrowed:_lost",
        "if not now.sweeping and not changed:",
        "if not changed:",
        "sweep-borrow",
    ),
    _one(
        "a borrower trusts a sweep that is over",
        "repository.borrowed:_lost",
        "return doomed | (changed - look_up(stores.objects, changed - doomed).keys())",
        "return doomed",
        "sweep-borrow",
    ),
    _one(
        "a sweep need not look again",
        "repository.borrowed:_doomed",
        "return None if stores.refs.epochs.look_again(now) is None else set()",
        "return set()",
        "sweep-borrow",
    ),
    _one(
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
    _one(
        "the end of a sweep takes the epoch back",
        "refs.epochs:Epochs._raised",
        "number=now.number + 1",
        "number=now.number + (1 if new.mark else -1)",
        "sweep-borrow",
    ),
    _one(
        "a commit does not check what its rows borrow",
        "repository.commits:_Committer._applied",
        "self._confirm(tokens)",
        "pass",
        "sweep-borrow-commit+1",
        "sweep-borrow-commit",
    ),
    _one(
        "a commit of changes holds nothing",
        "repository.borrowed:held",
        "stores.staging.set_many(token, [(row.key, row.value) for row in borrowed])",
        "pass",
        "sweep-patch",
    ),
    _one(
        "collection does not look at holds",
        "gc.reachability.roots:Roots.look_at_holds",
        "if token.startswith(HOLD):",
        "if False:",
        "sweep-patch",
    ),
)

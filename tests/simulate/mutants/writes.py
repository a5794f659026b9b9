"""Wrong writers, publishers, readers and committers."""

from tests.simulate.mutants.patch import Edit, Mutant, one_edit

_PRESENT = '__import__("graveler.kv.store").kv.store.PRESENT'
_COMMIT = "repository.commits.sealing:_Committer"

MUTANTS: tuple[Mutant, ...] = (
    # writers
    one_edit(
        "a writer is content with any token at its second look",
        "repository.writes.staged:StagedWrites._stage",
        "live = look.record.staging_token == token",
        "live = bool(look.record.staging_token)",
        "write-commit",
    ),
    one_edit(
        "a write is acknowledged before the second look",
        "repository.writes.staged:StagedWrites._stage",
        "            look = self._look(borrows=borrows)\n            live",
        "            return look\n            live",
        "write-commit",
    ),
    one_edit(
        "a writer repeats its write under the dead token",
        "repository.writes.staged:StagedWrites._stage",
        "token, head = look.record.staging_token,",
        "token, head = token if attempt else look.record.staging_token,",
        "write-commit",
    ),
    # publishers
    one_edit(
        "a landing trusts a head whose record was rewritten",
        "publishing.candidacy:_land",
        "tip.at(candidate), tip.predicate,",
        "(now := work.look() if work.look().head.id == tip.head.id else tip).at(candidate), "
        "now.predicate,",
        "tick-quarantine",
    ),
    one_edit(
        "a published hour takes another commit",
        "ingest.ticker:Ticker._keep",
        "if record.published or commit.id",
        "if commit.id",
        "tick-repair",
        deep=True,
    ),
    # readers
    one_edit(
        "a reader does not look again",
        "reads.versions:value_on_branch",
        "return settled(stores, name, read)",
        "return read(stores.refs.branches.get(name))",
        "sealed-left",
        "write-commit-read",
    ),
    one_edit(
        "a lister does not look again",
        "reads.versions:branch_snapshot",
        "settled(stores, name, copy)",
        "copy(stores.refs.branches.get(name))",
        "write-commit-list",
    ),
    one_edit(
        "a listing settles each row by itself",
        "reads.versions:branch_snapshot",
        "            if spool.is_empty:\n"
        "                yield Scan(committed, committed.runs, origin)\n"
        "            else:\n"
        "                yield Scan(lambda at: overlay(spool.rows(at), committed(at)), origin=origin)\n",
        """
            def settled_rows(position):
                def read(record):
                    tree = stores.refs.commits.get(record.commit_id).metarange
                    staged = stores.staging.scan(newest_first(record), position)
                    return next(overlay(staged, scan(stores.ranges, tree, position)), None)

                while (row := settled(stores, name, read)) is not None:
                    yield row
                    position = row[0] + b"\\0"

            yield Scan(settled_rows)
""",
        "spooled-listing",
    ),
    one_edit(
        "the second look is the first record",
        "reads.versions:settled",
        "now = stores.refs.branches.get(name)",
        "now = record",
        "write-commit-read",
    ),
    one_edit(
        "the second look sees the live token only",
        "reads.versions:settled",
        "_shown(now) == _shown(record)",
        "now.staging_token == record.staging_token",
        "sealed-left",
        "write-commit-read",
    ),
    one_edit(
        "a reader asks the oldest token first",
        "reads.versions:newest_first",
        "[record.staging_token, *reversed(record.sealed_tokens)]",
        "[*record.sealed_tokens, record.staging_token]",
        "sealed-left",
    ),
    one_edit(
        "a staged deletion shows what was committed",
        "reads.versions:value_on_branch",
        "if write is not None:",
        "if write is not None and staged_value(write) is not None:",
        "delete-committed",
    ),
    # sealing
    one_edit(
        "nothing is sealed",
        "repository.commits.sealing:_seal",
        "staging_token=stores.ids.unique()",
        "staging_token=live",
        "write-commit",
    ),
    one_edit(
        "sealing forgets what was sealed before",
        "repository.commits.sealing:_seal",
        "(*record.sealed_tokens, live)",
        "(live,)",
        "sealed-left",
    ),
    one_edit(
        "sealing puts the newest token first",
        "repository.commits.sealing:_seal",
        "(*record.sealed_tokens, live)",
        "(live, *record.sealed_tokens)",
        "sealed-left",
    ),
    one_edit(
        "a branch is moved without a condition",
        "refs.mover:moved",
        "refs.branches.replace(new, seen.predicate",
        f"refs.branches.replace(new, {_PRESENT}",
        "write-two-commits",
        "each-writes-and-commits",
    ),
    # committing
    one_edit(
        "a commit lands without a condition",
        "refs.mover:advance",
        "refs.branches.replace(record, predicate",
        f"refs.branches.replace(record, {_PRESENT}",
        "write-two-commits",
        "each-writes-and-commits",
    ),
    one_edit(
        "a commit clears every sealed token",
        f"{_COMMIT}._build",
        "sealed_tokens=tip.record.sealed_tokens[len(tokens) :]",
        "sealed_tokens=()",
        "each-writes-and-commits",
    ),
    one_edit(
        "a commit gives a token back",
        f"{_COMMIT}._build",
        "sealed_tokens=tip.record.sealed_tokens[len(tokens) :]",
        "sealed_tokens=tip.record.sealed_tokens",
        "write-commit",
    ),
    one_edit(
        "a retry keeps the base it began with",
        f"{_COMMIT}._build",
        "self._applied(tip, tokens)",
        "self._applied("
        "replace(tip, head=self._stores.refs.commits.get(self._seen.commit_id)), tokens)",
        "each-writes-and-commits",
        "merge-commit",
    ),
    one_edit(
        "a retry keeps the parent it began with",
        f"{_COMMIT}._build",
        "parents=(tip.head,)",
        "parents=(self._stores.refs.commits.get(self._seen.commit_id),)",
        "each-writes-and-commits",
        "merge-commit",
    ),
    one_edit(
        "a commit lets the oldest write win",
        f"{_COMMIT}._grown",
        "newest_first = read[::-1]",
        "newest_first = read",
        "sealed-left",
    ),
    one_edit(
        "a commit leaves deletions out",
        f"{_COMMIT}._grown",
        "self._changes(stores.staging.all(newest_first))",
        'self._changes(i for i in stores.staging.all(newest_first) if i[1][-1:] != b"\\x00")',
        "delete-committed",
    ),
    one_edit(
        "tokens are dropped before the commit is in",
        f"{_COMMIT}._build",
        "return replace(rest, commit_id=made.id)",
        "self._stores.staging.drop(*tokens); return replace(rest, commit_id=made.id)",
        "write-commit-read",
        "write-commit+1",
    ),
    one_edit(
        "committed tokens are never dropped",
        f"{_COMMIT}.run",
        "self._stores.staging.drop(*self._tokens)",
        "pass",
        "write-commit",
    ),
    one_edit(
        "finished work is kept whatever the head has become",
        f"{_COMMIT}._only_ours_since",
        "return parent.id == built.parent.id and landed + read == built.read",
        "return True",
        "merge-commit",
        "each-writes-and-commits",
    ),
    one_edit(
        "finished work is kept though its tokens were being dropped",
        f"{_COMMIT}._check",
        "if overlap(tokens, sealed) != tokens or read_for(tokens, sealed) != read:",
        "if False:",
        "each-writes-and-commits",
        "write-two-commits",
    ),
    one_edit(
        "work counts as whole that no look and no compare-and-set has proved",
        f"{_COMMIT}._applied",
        "whole = (sealed[:count], read_for(sealed[:count], sealed)) == (built.tokens, built.read)",
        "whole = True",
        "sealed-left-two-commits",
        "each-writes-and-commits",
        "write-two-commits",
    ),
    one_edit(
        "a committer seals an outdated record that it remembers",
        "repository.commits.sealing:_seal",
        "known = None",
        "return known",
        "each-writes-and-commits",
        "write-two-commits",
    ),
    one_edit(
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
    one_edit(
        "after a lost reply any record counts as ours",
        "refs.branches:Branches._written",
        "if record is not None and record.nonce == written.nonce:",
        "if record is not None:",
        "write-commit+1",
    ),
    one_edit(
        "a write whose reply was lost counts as made",
        "refs.branches:Branches._write",
        "unknown = error",
        "return value",
        "write-commit+1",
    ),
    one_edit(
        "a commit whose reply was lost counts as landed",
        "refs.mover:advance",
        "now = _read_back(refs, record.name, error)",
        "return True",
        "each-writes-and-commits+1",
        "write-two-commits+1",
    ),
)

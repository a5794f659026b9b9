"""Wrong copies, moves and imports, and wrong commits of some paths."""

from tests.simulate.mutants.patch import Mutant, one_edit

MUTANTS: tuple[Mutant, ...] = (
    # of copies
    one_edit(
        "several rows are staged under the live token",
        "repository.writes.bundles:Bundle.land",
        "if self._hold.token or len(self._rows) > 1:",
        "if self._hold.token:",
        "copy-put",
        "copy-list",
    ),
    one_edit(
        "a copy lies beneath what was acknowledged before it",
        "repository.writes.bundles:Bundle._attach",
        "if beneath or stores.staging.is_empty(live):",
        "if True:",
        "copy-commit",
    ),
    one_edit(
        "the rows of a bundle are not confirmed",
        "repository.writes.borrowed:Hold.add",
        "confirm(self._stores, [self.token], rows)",
        "pass",
        "collect-copy-commit",
        deep=True,
    ),
    one_edit(
        "a move does not look at what came in between",
        "repository.writes.moves:_Move.catch_up",
        "before, self._record = self._record, record",
        "return\n        before, self._record = self._record, record",
        "move-put-commit",
        "move-move",
    ),
    one_edit(
        "a row that a move drops stays if a reply is lost",
        "repository.writes.bundles:Bundle.remove",
        "self._stores.staging.remove_many(self._hold.token, [key])",
        """with __import__("contextlib").suppress(Exception):
                staging, token = self._stores.staging, self._hold.token
                staging.withdraw(token, key, staging.get([token], key))""",
        "move-move+1",
    ),
    one_edit(
        "a mirror deletes what it has copied",
        "repository.writes.copies:delete_others",
        "if key != path:",
        "if True:",
        "import-commit",
    ),
    # of selections
    one_edit(
        "a commit of some paths takes every sealed token off the branch",
        "repository.commits.selective:_leading",
        "return sealed[:number] if next(others, None) is None else ()",
        "return sealed",
        "partial-put",
    ),
    one_edit(
        "a commit of some paths takes everything",
        "repository.commits.selective:commit_paths",
        "choice.of(staging.scan(sealed[::-1])),",
        "staging.scan(sealed[::-1]),",
        "partial-put",
    ),
    one_edit(
        "a commit of some paths lets the oldest write win",
        "repository.commits.selective:commit_paths",
        "staging.scan(sealed[::-1])",
        "staging.scan(sealed)",
        "partial-sealed-put",
    ),
    one_edit(
        "a commit of some paths clears them before it lands",
        "repository.commits.selective:commit_paths",
        "        return record\n",
        "        older.clear()\n        return record\n",
        "partial-list",
        "partial-put+1",
    ),
    # of writes that give way to a commit
    one_edit(
        "what a commit has of the staged writes stays staged until it is cleared",
        "repository.commits.selective:GivingWay.beneath_voids",
        "sealed_tokens=(*sealed, self._token)",
        "sealed_tokens=sealed",
        "partial-pick-commit",
        "partial-pick+1",
    ),
    one_edit(
        "a read returns what gave way",
        "staging.area:StagingArea.get",
        "return None if stored.value == VOID else stored.value",
        "if stored.value != VOID:\n                        return stored.value",
        "patch-pick-read",
    ),
    one_edit(
        "a listing shows what gave way",
        "staging.area:StagingArea._combined",
        "combine([self._kv.scan(self._prefix + token, start) for token in newest_first])",
        "combine([_without_voids([token], self._kv.scan(self._prefix + token, start)) "
        "for token in newest_first])",
        "patch-pick-list",
    ),
    one_edit(
        "a committer keeps a tree with writes that have given way",
        "repository.commits.sealing:_Committer._applied",
        "if self._built is not None and self._built.voided != tip.record.voided:",
        "if False:",
        "partial-back",
        deep=True,
    ),
    one_edit(
        "a listing does not notice that writes have given way",
        "reads.versions:_shown",
        "record.commit_id, record.voided",
        "record.commit_id",
        "partial-back-list",
    ),
    one_edit(
        "a commit takes what voids behind its tokens hide",
        "repository.commits.sealing:read_for",
        "return (*tokens, *filter(is_laid, sealed[len(tokens) :]))",
        "return tokens",
        "patch-commit",
    ),
    one_edit(
        "a commit of given changes does not seal what is older",
        "repository.commits.selective:commit_changes",
        "seal(stores, name, fence, keys=None if also is None else [*keys, *also])",
        "pass",
        "patch-list",
    ),
)

"""Wrong copies, moves and imports, and wrong commits of some paths."""

from tests.simulate.mutants.patch import Mutant, one_edit

MUTANTS: tuple[Mutant, ...] = (
    # of copies
    one_edit(
        "several rows are staged under the live token",
        "repository.bundles:Bundle.land",
        "if self._hold.token or len(self._rows) > 1:",
        "if self._hold.token:",
        "copy-put",
        "copy-list",
    ),
    one_edit(
        "a copy lies beneath what was acknowledged before it",
        "repository.bundles:Bundle._attach",
        "if beneath or stores.staging.is_empty(live):",
        "if True:",
        "copy-commit",
    ),
    one_edit(
        "the rows of a bundle are not confirmed",
        "repository.borrowed:Hold.add",
        "confirm(self._stores, [self.token], rows)",
        "pass",
        "collect-copy-commit",
        deep=True,
    ),
    one_edit(
        "a move does not look at what came in between",
        "repository.moves:_Move.catch_up",
        "before, self._record = self._record, record",
        "return\n        before, self._record = self._record, record",
        "move-put-commit",
        "move-move",
    ),
    one_edit(
        "a row that a move drops stays if a reply is lost",
        "repository.bundles:Bundle.remove",
        "self._stores.staging.remove(self._hold.token, key)",
        """with __import__("contextlib").suppress(Exception):
                staging, token = self._stores.staging, self._hold.token
                staging.withdraw(token, key, staging.get([token], key))""",
        "move-move+1",
    ),
    one_edit(
        "a mirror deletes what it has copied",
        "repository.copies:delete_others",
        "if key != path:",
        "if True:",
        "import-commit",
    ),
    # of selections
    one_edit(
        "a commit of some paths takes every sealed token off the branch",
        "repository.selective:_Work._leading",
        "return sealed[:number]",
        "return sealed",
        "partial-put",
    ),
    one_edit(
        "a commit of some paths takes everything",
        "repository.selective:_Work.build",
        "self._choice.of(stores.staging.scan(sealed[::-1]))",
        "stores.staging.scan(sealed[::-1])",
        "partial-put",
    ),
    one_edit(
        "a commit of some paths lets the oldest write win",
        "repository.selective:_Work.build",
        "stores.staging.scan(sealed[::-1])",
        "stores.staging.scan(sealed)",
        "partial-sealed-put",
    ),
    one_edit(
        "a commit of some paths clears the newest token first",
        "repository.selective:_Work.clear",
        "for token in self._partly:",
        "for token in self._partly[::-1]:",
        "partial-sealed-put+1",
    ),
    one_edit(
        "a commit of some paths clears them before it lands",
        "repository.selective:_Work.build",
        "return replace(tip.at(made), sealed_tokens=self._partly)",
        "self.clear()\n        return replace(tip.at(made), sealed_tokens=self._partly)",
        "partial-list",
        "partial-put+1",
    ),
)

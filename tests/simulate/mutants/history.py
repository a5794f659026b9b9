"""Wrong merges, resets, reverts, branches and tags."""

from tests.simulate.mutants.patch import Edit, Mutant, one_edit

_PRESENT = '__import__("graveler.kv.store").kv.store.PRESENT'

MUTANTS: tuple[Mutant, ...] = (
    # resets, branches, tags
    Mutant(
        "a reset keeps the live token",
        (
            Edit(
                "repository.resets:reset",
                "dropped = _tokens(record)",
                "dropped = record.sealed_tokens",
            ),
            Edit(
                "repository.resets:reset",
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
                "repository.resets:reset",
                "dropped = _tokens(record)",
                "dropped = (record.staging_token,)",
            ),
            Edit("repository.resets:reset", ", sealed_tokens=()", ""),
        ),
        ("reset-sealed",),
    ),
    one_edit(
        "a reset writes without a condition",
        "repository.resets:reset",
        "move(stores.refs, name, change,",
        f"stores.refs.branches.replace(change(stores.refs.branches.get(name)), {_PRESENT})\n"
        "        (lambda *_, **__: None)(stores.refs, name, change,",
        "reset-commit",
    ),
    one_edit(
        "a branch is deleted without a condition",
        "refs.branches:Branches.delete",
        "self._kv.delete_if(self._partition, branch_key(record.name), predicate)",
        "self._kv.delete(self._partition, branch_key(record.name))",
        "delete-branch",
    ),
    one_edit(
        "what is staged on a deleted branch is not noted",
        "refs.moves:Moves.deleting",
        "(*record.sealed_tokens, record.staging_token)",
        "()",
        "delete-branch",
    ),
    one_edit(
        "a reset of paths leaves the writes in place",
        "repository.resets:reset_paths",
        "older.beneath_voids(record, record.sealed_tokens)",
        "record",
        "reset-paths-sealed",
    ),
    one_edit(
        "a branch is made without a condition",
        "refs.branches:Branches.create",
        "ABSENT, action",
        "(ABSENT if self.find(record.name) is None else " + _PRESENT + "), action",
        "two-creators",
    ),
    one_edit(
        "a tag is set without a condition",
        "refs.refs:Tags.create",
        "self._kv.set_if(self._partition, key, commit_id.encode(), ABSENT)",
        "self._kv.set(self._partition, key, commit_id.encode())",
        "tag-commit",
    ),
    # merging
    one_edit(
        "the base of a merge is the target's head",
        "repository.merges:build_merge",
        "bases = merge_start(stores, source, dest)",
        "bases = Bases.one(dest.metarange)",
        "two-merges",
    ),
    one_edit(
        "a merge starts from one of several bases",
        "repository.merges:find_bases",
        "Bases(best, bases)",
        "Bases(best[:1], bases)",
        "criss-cross",
    ),
    one_edit(
        "a merge takes what any one base has for what all have",
        "committed.bases:BaseValues.merged",
        "if len(set(identities)) == 1:",
        "if identities:",
        "criss-cross",
    ),
    one_edit(
        "a merge lands without a condition",
        "publishing.landing:land",
        "record, tip.predicate,",
        f"record, {_PRESENT},",
        "two-merges",
        "merge-commit",
    ),
    one_edit(
        "a merge is landed on a head it was not made for",
        "publishing.landing:land",
        "record = build(tip)",
        'record = build(replace(tip, head=attempt.__dict__.setdefault("head", tip.head)))',
        "two-merges",
        "merge-commit",
    ),
    one_edit(
        "a merge discards what is staged",
        "publishing.landing:Tip.at",
        "commit_id=commit.id)",
        "commit_id=commit.id, sealed_tokens=())",
        "merge-sealed",
    ),
    # reverts and hard resets
    one_edit(
        "a revert gives back the tree from before",
        "repository.reverts:_land",
        "base=base.metarange",
        "base=tip.head.metarange",
        "revert-commit",
    ),
    one_edit(
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
                "repository.resets:reset_hard",
                "drop(*_tokens(result.tip.record))",
                "drop(*result.tip.record.sealed_tokens)",
            ),
            Edit(
                "repository.resets:reset_hard",
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
                "repository.resets:reset_hard",
                "drop(*_tokens(result.tip.record))",
                "drop(result.tip.record.staging_token)",
            ),
            Edit("repository.resets:reset_hard", ", sealed_tokens=()", ""),
        ),
        ("hard-reset-sealed",),
    ),
)

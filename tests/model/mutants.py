"""Wrong rules of retries and rollbacks, each of which the histories must find."""

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.model.drawing import drawn
from tests.model.driver import check
from tests.model.shrinking import shrunk
from tests.simulate.mutants.patch import Edit, Mutant, mutated, one_edit

HISTORIES = 1_000

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a retry believes the run's record instead of the head",
        (
            Edit("runs.steps.earlier:earlier_join", "return fork if work else None", "return None"),
            Edit(
                "runs.steps.earlier:undone",
                "if earlier is None or WORK in",
                "if earlier is None:\n        return trees\n    if WORK in",
            ),
        ),
        (),
    ),
    one_edit(
        "a rollback deletes a path that another writer claims",
        "committed.claims:Stack.withdraw",
        "self.set_before(next(iter(self.over(writer)), None), claim.before)",
        "self.set_before(None, claim.before)",
    ),
    one_edit(
        "what stood before a later claim is not passed on",
        "committed.claims:Stack.withdraw",
        "self.set_before(next(iter(self.over(writer)), None), claim.before)",
        "self.value = self.value if self.over(writer) else claim.before",
    ),
    one_edit(
        "a merge does not bring claims",
        "publishing.landing:merged_claims",
        "for source in others:",
        "for source in ():",
    ),
    one_edit(
        "a revert does not withdraw claims",
        "repository.reverts:_land",
        "pairs = zip(trees_of(tip.head), (tree, claims), strict=True)",
        "claims = trees_of(tip.head).claims\n"
        "        pairs = zip(trees_of(tip.head), (tree, claims), strict=True)",
    ),
    one_edit(
        "a write of equal content is no claim",
        "committed.claims:claimed",
        "unchanged = [path for path in equal if path not in changed]",
        "unchanged = []",
    ),
    one_edit(
        "a deletion of what is gone is no claim",
        "committed.claims:claimed",
        "if same_content(was, now) and",
        "if now is not None and same_content(was, now) and",
    ),
    one_edit(
        "an attempt is published although its run was rolled back",
        "runs.history:is_displaced",
        "return not same_work(",
        "return False and same_work(",
    ),
    one_edit(
        "an attempt is published although its target lost the fork",
        "runs.history:is_rewound",
        "return not is_ancestor(",
        "return False and is_ancestor(",
    ),
    one_edit(
        "a repeated rollback follows the record",
        "runs.rollback:_reverting",
        "return line.revert_of(publish.commit)",
        "return None",
    ),
    one_edit(
        "a collection forgets what claims",
        "gc.reachability.survey:Survey.keep_commits",
        "self.reach_claims(",
        "set(",
    ),
)


def hunted(number: int) -> str:
    """Return the seed and the violation by which a mutant is found; "" if it survives."""
    logging.disable(logging.CRITICAL)
    for seed in range(HISTORIES):
        operations = drawn(seed)
        with mutated(MUTANTS[number]):
            checked = check(operations)
            if not checked.violation:
                continue
            kept, violation = shrunk(operations[: checked.at], check)
        if not check(kept).violation:
            return f"seed {seed}, {len(kept)} operations: {violation[:80]}"
    return ""


def hunt(words: Sequence[str] = ()) -> int:
    """Hunt the mutants whose names have one of the words, or all; return how many survive."""
    chosen = [
        number
        for number, mutant in enumerate(MUTANTS)
        if not words or any(word in mutant.name for word in words)
    ]
    survivors = 0
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for number, found in zip(chosen, pool.map(hunted, chosen), strict=True):
            survivors += not found
            print(f"  {MUTANTS[number].name:60} {found or 'SURVIVED'}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} mutants found")
    return survivors

"""Two transactions: the second one runs between any two calls of the first one."""

from types import SimpleNamespace
from typing import Any

from graveler.errors import GravelerError, MergeConflictError
from graveler.spark.tables import Tables
from tests.harness.worlds import interleave, tree

SPARK: Any = SimpleNamespace()  # without one, `Tables` would start a JVM


def load(number, txn=None, claims=""):
    """Return a call that stages a file in a transaction, without Spark."""

    def call(repo):
        lake = Tables(repo, SPARK)
        with lake.transaction("main", message=f"load {number}", txn=txn) as tx:
            if tx._run is not None:
                if claims:
                    tx._claims.folder(claims)
                tx._run.put(f"t/{number}", b"1")
        return tx

    return call


def nothing(repo):
    pass


def test_a_named_transaction_lands_once_whatever_comes_between():
    def check(world, *outcomes):
        assert not [outcome for outcome in outcomes if isinstance(outcome, GravelerError)]
        repo = world.repo(scripted=False)
        assert len(tree(repo.ref("main"))) == 1
        assert [branch.name for branch in repo.branches(hidden=True)] == ["main"]

    txn = ("loads", 1)
    interleave(nothing, load(1, txn), load(2, txn), check, least=20)


def test_of_two_that_claim_a_table_one_lands():
    conflicts = []

    def check(world, *outcomes):
        lost = [outcome for outcome in outcomes if isinstance(outcome, GravelerError)]
        assert {type(error) for error in lost} <= {MergeConflictError}
        conflicts.extend(lost)
        assert len(tree(world.repo(scripted=False).ref("main"))) == 2 - len(lost)

    interleave(nothing, load(1, claims="t/"), load(2, claims="t/"), check, least=20)
    assert conflicts

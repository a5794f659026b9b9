"""Large merges by tasks of a real Spark."""

import pytest

import graveler
from graveler import spark as gs
from graveler.committed.splitting import Splitting
from graveler.errors import InvalidInputError, MergeConflictError
from graveler.testing.world import link_unseen

SMALL = {
    "hash": Splitting("hash", max_bytes=3_000, raggedness=5, hard=4),
    "directory": Splitting("directory", max_bytes=4_000, raggedness=4, hard=4, number=7),
}


def stage(branch, numbers, size):
    entries = (graveler.Entry(path(n), f"data/{n}", size) for n in numbers)
    link_unseen(branch, entries)
    return branch


def path(number):
    return f"d{number % 7}/{number:05}-é"


@pytest.mark.parametrize("policy", sorted(SMALL))
def test_a_merge_by_tasks_is_that_of_one_process(spark, tmp_path, policy):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("sales", splitting=SMALL[policy])
        main, tables = repo.branch("main"), gs.attach(repo, spark)
        stage(main, range(3_000), 1).commit("base")
        dev = stage(repo.create_branch("dev"), range(0, 4_000, 9), 2)
        dev.delete_many([path(n) for n in range(5, 3_000, 18)])
        dev.commit("dev")
        stage(main, range(3, 4_500, 9), 3).delete_many([path(n) for n in range(6, 3_000, 18)])
        main.commit("main")
        other = repo.create_branch("other")
        done = tables.merge("dev", "main", method="spark", share_bytes=20_000)
        assert done.commit.metarange == repo.merge("dev", into=other).commit.metarange
        assert tables.merge("dev", main).already

        stage(dev, range(0, 3_000, 50), 7).commit("dev again")
        for branch in (main, other):
            stage(branch, range(0, 3_000, 50), 8).commit("main again")
        errors = []
        for method in ("spark", "process"):
            with pytest.raises(MergeConflictError) as refused:
                tables.merge("dev", "main", method=method, share_bytes=20_000)
            errors.append((str(refused.value), refused.value.conflicts, refused.value.count))
        assert errors[0] == errors[1]

        def smaller(conflict):
            return "source-wins" if conflict.path < "d3" else "delete"

        with pytest.raises(InvalidInputError, match="of neither side"):
            tables.merge("dev", "main", method="spark", strategy=lambda conflict: conflict.base)
        tables.merge("dev", "main", method="spark", strategy=smaller, share_bytes=20_000)
        tables.merge("dev", other, strategy=smaller)
        assert repo.commit("main").metarange == repo.commit("other").metarange

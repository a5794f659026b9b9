"""Packing a branch by tasks of a real Spark."""

import graveler
from graveler import spark as gs
from graveler.committed.splitting import Splitting
from graveler.testing.world import link_unseen

SPLITTING = Splitting("hash", max_bytes=3_000, raggedness=5, hard=4)


def test_a_branch_is_packed_as_by_one_process(spark, tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("sales", splitting=SPLITTING)
        main = repo.branch("main")
        for hour in range(30):
            entries = (graveler.Entry(f"h{n:03d}/{hour}", f"data/{n}", n) for n in range(40))
            link_unseen(main, entries)
            main.commit(f"{hour}")
        other = repo.create_branch("other", source="main")
        tables = gs.attach(repo, spark)
        done = tables.pack(method="spark", share_bytes=10_000)
        alone = tables.pack(other, method="process")
        assert done.before > done.after > 0
        assert repo.commit("other").metarange == repo.commit("main").metarange
        assert (alone.before, alone.after) == (done.before, done.after)
        assert list(repo.diff("main~1", "main")) == []
        assert tables.pack(method="spark").commit is None

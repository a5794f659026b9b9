from dataclasses import dataclass

import pytest

import graveler
from graveler.committed.metarange import read
from graveler.committed.splitting import Splitting
from graveler.config import LakeConfig
from graveler.fsck.check import fsck
from graveler.lake.factory import connect
from graveler.spark.tasks.checks import TaskCheck
from tests.harness.check_jobs import jobs
from tests.harness.gc_lakes import commit
from tests.harness.worlds import ScriptedWorld


@dataclass
class Damage:
    """A repository in which parts can be removed or damaged directly in the stores."""

    repo: graveler.Repository

    @property
    def objects(self):
        return self.repo.stores.objects

    @property
    def refs(self):
        return f"refs:{self.repo.stores.uid}"

    def address(self, ref, path):
        return self.repo.ref(ref).stat(path).address

    def metarange(self, ref):
        return self.repo.commit(ref).metarange

    def ranges(self, ref):
        return read(self.repo.stores.ranges, self.metarange(ref))

    def key(self, identifier: str):
        return self.repo.stores.ranges.key(bytes.fromhex(identifier))

    def flip(self, key: str, at: int):
        body = bytearray(self.objects.get(key))
        body[at] ^= 1
        self.objects.put(key, bytes(body))

    def overwrite(self, key: str, value: bytes):
        self.repo.stores.kv.set(self.refs, key.encode(), value)

    def fsck(self, **options):
        """Check the repository, and assert that a check by tasks gives the same report."""
        report = fsck(self.repo.stores, **options)
        if options.keys() <= {"objects", "also"}:
            check = TaskCheck(self.repo.stores, options.get("objects", "exist"), jobs)
            assert fsck(self.repo.stores, **options, check=check) == report
        return report

    def found(self, **options):
        return [(problem.kind.value, problem.id) for problem in self.fsck(**options).problems]


@pytest.fixture
def damage(tmp_path):
    """Three commits with many ranges on main, a branch ahead, a tag, a parked and an open run."""
    config = LakeConfig(
        location=str(tmp_path),
        kv_uri="mem://",
        storage_uri=f"mem://{tmp_path.name}",
        cache_folder=tmp_path / "cache",
    )
    with connect(config) as lake:
        repo = lake.create_repository("flights", splitting=Splitting(raggedness=3))
        main = repo.branch("main")
        for hour in range(3):
            for part in range(4):
                main.put(f"{hour:02}:00/part-{part}", f"{hour} {part}".encode())
            main.commit(f"hour {hour}")
        repo.tags.create("v1", "main~1")
        repo.create_branch("dev")
        repo.branch("dev").put("dev/a", b"dev")
        repo.branch("dev").commit("ahead")

        def parked():
            with repo.run("hour 3") as run:
                run.put("run/a", b"run")
                run.commit("half")
                raise ValueError("stopped")

        with pytest.raises(ValueError, match="stopped"):
            parked()
        with lake.repository("flights").runs.open("hour 4").step("ingest") as step:
            step.put("step/a", b"step")
        yield Damage(repo)


@pytest.fixture
def world():
    return ScriptedWorld()


@pytest.fixture
def repo(world):
    """A repository with nine files."""
    repo = world.repo(scripted=False)
    commit(repo, "main", "base", **{f"p{number}": str(number) for number in range(9)})
    return repo

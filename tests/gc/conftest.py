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

    def lose(self, ref, path):
        """Delete the object of a path, and return its URI."""
        address = self.address(ref, path)
        self.objects.delete(address)
        return self.repo.stores.uri(address)

    def flip(self, identifier: str, at: int):
        """Change a bit of a table, and return its id."""
        body = bytearray(self.objects.get(self.key(identifier)))
        body[at] ^= 1
        self.objects.put(self.key(identifier), bytes(body))
        return identifier

    def token(self, branch):
        return self.repo.stores.refs.branches.get(branch).staging_token

    def staged(self, branch, key):
        return self.repo.stores.staging.get([self.token(branch)], key)

    def stage(self, branch, key, raw):
        self.repo.stores.staging.set(self.token(branch), key, raw)

    def remove(self, identifier: str):
        self.objects.delete(self.key(identifier))
        return identifier

    def change(self, ref, path, body):
        address = self.address(ref, path)
        self.objects.put(address, body)
        return self.repo.stores.uri(address)

    def claims(self, key):
        (run,) = (each for each in self.repo.branches(hidden=True) if key in each.name)
        return self.repo.commit(run.name).trees[1]

    def overwrite(self, kind: str, name: str, value: bytes):
        """Write a record of a ref, and return its name."""
        self.repo.stores.kv.set(self.refs, f"{kind}/{name}".encode(), value)
        return name

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

"""Helpers for tests of collection: they pass time, and read what a repository must still have."""

import json
from datetime import timedelta
from hashlib import sha256

import graveler
from graveler.base.records import encode_json
from graveler.committed.metarange import read
from graveler.fsck.check import fsck
from graveler.model import Entry
from graveler.objects.registry import open_store
from graveler.repository.witness.marker import MARKER
from tests.harness.worlds import tree

DAY = 86_400
NOW = timedelta(0)
OUTSIDE = "mem://outside"


def pass_days(world, days):
    """Advance the clocks of the machines and of the object store by days."""
    world._clock.sleep(days * DAY)


def days(repo, number):
    """Advance the clock of the machines by days."""
    repo.stores.clock.sleep(number * DAY)


def everything(repo):
    """Return the content of every branch and tag, including staged writes."""
    seen = {record.name: tree(repo.branch(record.name)) for record in repo.branches(hidden=True)}
    return seen | {
        f"tag {name}": tree(repo.ref(commit)) for name, commit in repo.tags.list().items()
    }


def check_sound(repo):
    """Check that everything that can be named can be read, and that fsck finds no problem."""
    report = fsck(repo.stores, objects="checksum")
    assert list(report.problems) == []
    return everything(repo)


def commit(repo, branch, message="c", **files):
    """Put files on a branch, which is made if it is missing, and commit them."""
    target = repo.create_branch(branch, exist_ok=True)
    for path, body in files.items():
        target.put(path, body.encode() if isinstance(body, str) else body)
    return target.commit(message)


def link(repo, branch, message="c", **files):
    """Commit files outside the lake; linked again, they give the same records and tables."""
    repo.links.allow(OUTSIDE)
    target = repo.create_branch(branch, exist_ok=True)
    target.link_many(outside(files))
    return target.commit(message)


def outside(files):
    """The entries of such files."""
    store = open_store(OUTSIDE)
    entries = []
    for path, body in files.items():
        key = f"{sha256(body.encode()).hexdigest()[:16]}-{path}"
        store.put_if_absent(key, body.encode())  # a new version would make other records
        info = store.head(key)
        entries.append(Entry(path, store.uri(info.key), info.size, info.checksum, computed=True))
    return entries


def collect(repo, **options):
    """Mark and sweep at once, which is unsafe while others write."""
    (mark,) = repo.gc.run(grace=NOW, window=NOW, **options)
    return mark


def keys(repo, prefix=""):
    """The keys in the storage, except those of garbage collection itself."""
    return {
        info.key
        for info in repo.stores.objects.list(prefix)
        if not info.key.startswith("_graveler/gc/")
    }


def made_key(repo, number=0):
    """A key that graveler could have made for a file of the repository."""
    return f"data/{repo.stores.storage_id}/{number:032x}"


def counts(tallies):
    """Return the counts of tallies by kind, without zeros."""
    return {kind.value: tally.count for kind, tally in tallies.items() if tally.count}


def needed(repo):
    """The keys that the branches and tags need, found by walking all of their histories."""
    found = {"_graveler/marker"}
    refs = [record.name for record in repo.branches(hidden=True)] + list(repo.tags.list())
    for commit in {commit.id: commit for ref in refs for commit in repo.log(ref)}.values():
        infos = list(read(repo.stores.ranges, commit.metarange)) if commit.metarange else []
        tables = [info.id.hex() for info in infos]
        if tables:  # the empty tree is not stored
            found |= {f"_graveler/{name}" for name in (commit.metarange, *tables)}
        entries = repo.ref(commit).entries()
        found |= {entry.address for entry in entries if "://" not in entry.address}
    return found


def as_of_0_2(repo):
    """Rewrite the records of a repository as version 0.2 wrote them, and return its first address."""
    stores = repo.stores
    for get, put in (
        (
            lambda: stores.kv.get("lake", b"repository/flights").value,
            lambda raw: stores.kv.set("lake", b"repository/flights", raw),
        ),
        (lambda: stores.objects.get(MARKER), lambda raw: stores.objects.put(MARKER, raw)),
    ):
        fields = json.loads(get())
        del fields["storage_id"]
        put(encode_json(fields))
    with graveler.open(stores.location) as lake:  # the etag of the marker has changed
        lake.accept("flights")

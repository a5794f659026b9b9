"""Random histories of three branches and their maintenance: collection takes what no ref reaches, and no more.

What a ref reaches is found by PyIceberg, from the metadata of its tables. The commits from which two branches
come are kept, too, for their merge.
"""

from contextlib import suppress
from itertools import combinations

from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)

import graveler
from graveler.errors import (
    AlreadyExistsError,
    ExpiredError,
    MergeConflictError,
    NoChangesError,
    NotFoundError,
)
from graveler.iceberg import expire
from tests.harness.iceberg import catalog_of, compact, delays, named_files, rows, with_table

BRANCHES = ("main", "dev", "late")
TABLES = ("db.flights", "db.trips")
OFTEN, SOMETIMES = (
    ("append", "append", "overwrite", "delete", "compact"),
    (
        "expire",
        "expire all",
        "create",
        "drop",
        "rename",
        "branch",
        "unbranch",
        "merge",
        "tag",
        "die",
        "collect",
    ),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(OFTEN + SOMETIMES), st.sampled_from(BRANCHES), st.sampled_from(TABLES)
    ),
    min_size=8,
    max_size=20,
)
IDLE = (
    NotFoundError,
    NoSuchTableError,
    NoSuchNamespaceError,
    TableAlreadyExistsError,
    AlreadyExistsError,
    NoChangesError,
    MergeConflictError,
    CommitFailedException,
    UserWarning,
)
"""What a step says that is not possible here, or does nothing."""


def files_of(catalog):
    """Return the files of all tables of a catalog; an early commit has no namespace."""
    names = catalog.list_tables("db") if catalog.namespace_exists("db") else []
    return {file for name in names for file in named_files(catalog.load_table(name))}


class History:
    """A repository, and clients that died with their files."""

    def __init__(self, repo):
        self.repo = repo
        self.number = 0
        repo.gc.keep("*", count=1)
        with_table(catalog_of(repo.branch("main")), 0)

    def step(self, kind, name, table):
        self.number += 1
        if kind in ("branch", "unbranch", "merge", "tag"):
            self._move(kind, name)
        elif kind == "expire all":
            expire(self.repo.branch(name), keep=1)
        else:
            self._change(kind, catalog_of(self.repo.branch(name)), table)

    def _move(self, kind, name):
        if kind == "branch":
            self.repo.create_branch(name)
        elif kind == "tag":
            self.repo.tags.create(f"v{self.number}", name)
        elif name != "main" and kind == "merge":
            self.repo.merge(name, into="main")
        elif name != "main":
            self.repo.delete_branch(name)

    def _change(self, kind, catalog, table):
        if kind == "create":
            with_table(catalog, self.number, table=table)
        elif kind == "drop":
            catalog.drop_table(table)
        elif kind == "rename":
            catalog.rename_table(table, "db.renamed")
        else:
            self._write(kind, catalog.load_table(table))

    def _write(self, kind, table):
        if kind == "append":
            table.append(rows(self.number))
        elif kind == "overwrite":
            table.overwrite(rows(self.number))
        elif kind == "delete":
            table.delete(f"delay < {self.number - 3}")
        elif kind == "compact":
            compact(table)
        elif kind == "expire":
            old = [each.snapshot_id for each in table.snapshots()[:-1]]
            table.maintenance.expire_snapshots().by_ids(old).commit()
        elif kind == "die":
            table.transaction().append(rows(self.number))

    def catalogs(self):
        """Return the catalogs of all refs."""
        repo = self.repo
        refs = [each.name for each in repo.branches()] + list(repo.tags.list())
        return {ref: catalog_of(repo.ref(ref)) for ref in refs}

    def tables(self):
        """Return the tables of all refs, as PyIceberg loads them."""
        return {
            (ref, table): catalog.load_table(table)
            for ref, catalog in self.catalogs().items()
            for table in catalog.list_tables("db")
        }

    def rows(self):
        return {place: delays(self.catalogs()[place[0]], place[1]) for place in self.tables()}

    def bases(self):
        """Return the files of tables at commits that merges of branches need."""
        heads = [self.repo.ref(name).commit.id for name in self.catalogs()]
        lines = {head: [commit.id for commit in self.repo.log(head)] for head in heads}
        found = set()
        for one, other in combinations(lines.values(), 2):
            common = [commit for commit in one if commit in other]
            with suppress(ExpiredError):
                found |= files_of(catalog_of(self.repo.ref(common[0])))
        return found

    def collect(self):
        before = self.rows()
        reached = {file for each in self.catalogs().values() for file in files_of(each)}
        self.repo.gc.run(grace="0s", window="0s")
        stored = {
            self.repo.stores.uri(info.key) for info in self.repo.stores.objects.list("tables/")
        }
        assert reached <= stored <= reached | self.bases()
        assert self.rows() == before
        assert self.repo.fsck().sound


@settings(
    max_examples=8, deadline=None, phases=[Phase.explicit, Phase.generate]
)  # a shrink takes long
@given(steps=STEPS)
@example(
    steps=[
        ("branch", "late", "db.flights"),
        ("delete", "main", "db.flights"),
        ("drop", "late", "db.flights"),
        ("expire", "main", "db.flights"),
    ]
)  # the commit before both is needed by a merge
def test_collection_takes_what_no_ref_reaches(tmp_path_factory, steps):
    with graveler.init(tmp_path_factory.mktemp("lake")) as lake:
        history = History(lake.create_repository("flights"))
        for kind, name, table in steps:
            if kind == "collect":
                history.collect()
            else:
                with suppress(*IDLE):
                    history.step(kind, name, table)
        history.collect()

"""Any history of lakeFS is imported as the model has it, also by several imports."""

from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.objects.registry import open_store
from graveler.testing import World
from tests.harness.lakefs import LakefsWriter
from tests.lakefs.trees import check_history, imported

paths = st.sampled_from([f"{folder}/{number}" for folder in "abc" for number in range(6)])
changes = st.dictionaries(paths, st.integers(-1, 3), max_size=5)
branches = st.sampled_from(["main", "dev", "fix"])
steps = st.one_of(
    st.tuples(st.just("commit"), branches, changes),
    st.tuples(st.just("branch"), branches, branches),
    st.tuples(st.just("merge"), branches, branches),
    st.tuples(st.just("tag"), branches, st.integers(0, 3)),
)


def play(lakefs, history, start):
    """Apply the steps of a history that are possible."""
    for number, (action, name, what) in enumerate(history, start):
        head = lakefs.branches.get(name)
        if head is None and action != "branch":
            continue
        time = (1_600_000_000 + number, 0)
        if action == "commit":
            tree = dict(lakefs.trees[head])
            for path, version in what.items():
                tree.pop(path, None)
                if version >= 0:
                    tree[path] = lakefs.upload(f"{path}-{version}", b"%d" % version)
            lakefs.branches[name] = lakefs.commit(tree, [head], message=str(number), time=time)
        elif action == "branch" and what in lakefs.branches:
            lakefs.branches.setdefault(name, lakefs.branches[what])
        elif action == "merge" and lakefs.branches.get(what, head) != head:
            other = lakefs.branches[what]
            tree = {**lakefs.trees[head], **lakefs.trees[other]}
            lakefs.branches[name] = lakefs.commit(
                tree, [head, other], message=f"merge {number}", time=time
            )
        elif action == "tag":
            lakefs.tags.setdefault(f"v{what}", head)


@settings(max_examples=25)
@given(parts=st.lists(st.lists(steps, max_size=12), min_size=1, max_size=3))
def test_each_import_of_a_growing_history_gives_the_model(parts):
    world = World()
    source = f"{world.config.storage_uri}-lakefs"
    lakefs = LakefsWriter(open_store(source).put)
    lakefs.branches["main"] = lakefs.commit({}, message="Repository created")
    number = 0
    with world.open() as lake:
        for part in parts:
            play(lakefs, part, number)
            number += len(part)
            lakefs.dump()
            done = lake.import_lakefs(source, "flights", allow=[source])
            repo = lake.repository("flights")
            check_history(repo, source, lakefs)
            assert done.commits == len(imported(repo))
            again = lake.import_lakefs(source, "flights", allow=[source])
            assert (again.new_commits, again.ranges) == (0, 0)
        # one import of everything gives the same commits
        lake.import_lakefs(source, "trains", allow=[source])
        once, grown = (imported(lake.repository(name)) for name in ("trains", "flights"))
        assert once == grown

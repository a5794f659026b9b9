"""``graveler import-lakefs``."""

from graveler.objects.registry import open_store
from tests.harness.lakefs import LakefsWriter, Obj


def test_the_verb_imports_a_folder_and_says_what_came(cli, folder, tmp_path):
    namespace = tmp_path / "namespace"
    lakefs = LakefsWriter(open_store(str(namespace)).put)
    commit = lakefs.commit({"a": lakefs.upload("a", b"a"), "b/": Obj("b", 0, "")}, message="a")
    lakefs.branches.update({"main": commit, "run-1": commit})
    lakefs.dump()
    verb: tuple[object, ...] = ("import-lakefs", namespace, "trains")
    assert "--rename run-1=NEW" in cli(*verb).err
    verb += ("--rename", "run-1=")
    assert f"--allow file://{namespace}" in cli(*verb).err
    verb += ("--allow", namespace)
    assert "--skip-odd-paths" in cli(*verb).err
    assert cli(*verb, "--skip-odd-paths").out == (
        "imported 1 commits (1 new), 1 branches and 0 tags into trains: 1 entries in 1 new ranges\n"
        "left out 1 entries because of their paths\n"
    )
    again = cli(*verb, "--skip-odd-paths", "--json").json
    assert (again["commits"], again["new_commits"], again["ranges"]) == (1, 0, 0)
    assert cli("stat", "main:a", "-R", "trains", "--json").json["size"] == 1
    assert cli(*verb, "--rename", "x").code == 2

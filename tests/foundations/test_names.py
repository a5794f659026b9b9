"""Names: which are valid, for what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.base.names import (
    check_branch,
    check_repository,
    check_tag,
    path_key,
    run_branch,
    step_branch,
)
from graveler.errors import InvalidInputError
from graveler.runs.runs import Runs
from tests.harness.worlds import ScriptedWorld


@pytest.mark.parametrize("name", ["abc", "0-1", "a" * 63, "flights"])
def test_a_repository_may_be_called(name):
    assert check_repository(name) == name


@pytest.mark.parametrize("name", ["", "ab", "a" * 64, "-abc", "Abc", "a_c", "a/c", "abc\n", "äbc"])
def test_a_repository_may_not_be_called(name):
    with pytest.raises(InvalidInputError, match="3 to 63"):
        check_repository(name)


@pytest.mark.parametrize("check", [check_branch, check_tag])
@pytest.mark.parametrize("name", ["main", "_", "v1.2-x", "A" * 200, "f" * 63, "run-x.y"])
def test_a_ref_may_be_called(check, name):
    assert check(name) == name


@pytest.mark.parametrize("check", [check_branch, check_tag])
@pytest.mark.parametrize(
    "name", ["", "-a", ".a", "a/b", "a~", "a^", "a@", "a:", "a b", "a\n", "é", "A" * 201, "f" * 64]
)
def test_a_ref_may_not_be_called(check, name):
    with pytest.raises(InvalidInputError):
        check(name)


@given(st.text(min_size=1, max_size=30).filter(lambda text: "\0" not in text))
def test_a_path_is_any_text_and_sorts_as_its_bytes(path):
    try:
        raw = path.encode()
    except UnicodeEncodeError:
        with pytest.raises(InvalidInputError, match="UTF-8"):
            path_key(path)
    else:
        assert path_key(path) == raw


@pytest.mark.parametrize("path", ["", "x" * 1025, "é" * 513, "a\0b", "\udc80"], ids=repr)
def test_a_path_may_not_be(path):
    with pytest.raises(InvalidInputError):
        path_key(path)


@given(st.text(max_size=300), st.text(max_size=300))
def test_a_runs_and_a_steps_branch_are_names_of_branches(key, step):
    branch = run_branch(key)
    assert check_branch(branch) == branch
    assert branch.startswith("run-")
    inner = step_branch(branch, step)
    assert check_branch(inner) == inner
    assert inner.startswith(branch + ".")


def test_keys_that_read_alike_have_branches_of_their_own():
    keys = ["a b", "a-b", "a/b", "a  b", "A b", "", "-", "é", "è", "a" * 500, "a" * 501]
    assert len({run_branch(key) for key in keys}) == len(keys)
    assert run_branch("hourly 2013-01-01T05:00") == "run-hourly-2013-01-01T05-00-e280f521"


def test_two_keys_of_one_branch_name_do_not_share_a_run():
    seen: dict[str, str] = {}
    twins = None
    number = 0
    while twins is None:  # about 10,000 keys: 32 bits collide early if the slug is the same
        key = "é" * (number % 7 + 1) + "".join(chr(0x4E00 + int(digit)) for digit in str(number))
        other = seen.setdefault(run_branch(key), key)
        if other != key:
            twins = (other, key)
        number += 1
    runs: Runs = ScriptedWorld().repo().runs
    runs.open(twins[0])
    with pytest.raises(InvalidInputError, match="change the key"):
        runs.open(twins[1])
    with pytest.raises(InvalidInputError):
        runs.get(twins[1])


def test_the_longest_path_can_be_written_listed_and_read():
    main = ScriptedWorld().repo().branch("main")
    paths = [letter * 1024 for letter in "abc"] + ["é" * 512]
    for path in paths:
        main.put(path, path[:3].encode())
    for _ in range(2):
        assert [entry.path for entry in main.entries()] == paths
        assert [item.path for item in main.list(after=paths[0])] == paths[1:]
        assert main.get(paths[-1]) == "ééé".encode()
        if list(main.uncommitted()):
            main.commit("long")

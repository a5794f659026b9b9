"""Manifests: which texts are valid, the files that they name, and their one normal form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import InvalidInputError
from graveler.keep.locators import Locator
from graveler.keep.manifests import Manifest, Run, portable_data_hash

E = "d41d8cd98f00b204e9800998ecf8427e"
SIGNED = f"{E}+0+A{'f' * 40}@ffffffff"
A, B, C = ("a" * 32, "b" * 32, "c" * 32)

VALID = {
    "nothing": "",
    "a file": f". {E}+0 0:0:abc.txt\n",
    "a path": f". {E}+0 0:0:foo/bar.txt\n",
    "a hidden file": f". {E}+0 0:0:.foo\n",
    "three dots": f". {E}+0 0:0:...\n",
    "many dots": f". {E}+0 0:0:.../.foo./.../bar\n",
    "leading zeros": f". {E}+0 {'0' * 30}:0777:foo.txt\n",
    "the name 0": f". {E}+0 0:0:0\n",
    "a space as a name": f". {E}+0 0:0:\\040\n",
    "a name like a locator": f". {E}+0 0:0:{E}+0\n",
    "a name with a colon": f". {E}+0 0:0:a:b\n",
    "a name with an escaped colon": f". {E}+0 0:0:a\\072b\n",
    "a name beyond ASCII": f". {E}+0 0:0:für\n",
    "two locators": f". {E}+0 {E}+0 0:0:foo.txt\n",
    "two files": f". {E}+0 0:0:foo 0:0:bar\n",
    "two streams": f". {E}+0 0:0:foo\n./b {E}+0 0:0:foo\n",
    "a signed locator": f". {SIGNED} 0:0:foo.txt\n",
    "a hint without content": f". {E}+0+Z 0:0:foo.txt\n",
    "several hints": f". {E}+0+Zfoo+Z@_-9 0:0:foo.txt\n",
    "an empty folder": f"./empty_dir {E}+0 0:0:.\n",
    "an empty folder of Python": f"./empty_dir {E}+0 0:0:\\056\n",
    "a stream with an escape": f"./a\\040b {E}+0 0:0:foo\n",
}

_FAULTY = {
    "a blank": " ",
    "no final line feed": f". {E}+0 0:0:foo",
    "no final line feed later": f". {E}+0 0:0:foo\n. {E}+0 0:0:bar",
    **{
        f"the stream {name}": f"{name} {E}+0 0:0:foo\n"
        for name in (
            *("abc", "/dir1", "abc/./foo", "./abc/../foo", "./abc/.", "./abc/..", "./", ".//foo"),
            *("./foo/", "./..", "./.", "..", "", ".\\057\\057foo", "./\\056"),
        )
    },
    **{
        f"the file {token}": f". {E}+0 {token}\n"
        for token in (
            *("0:1:.", "1:0:.", "0:0:..", "0:0:./abc", "0:0:../abc", "0:0:abc/.", "0:0:abc/.."),
            *(
                "0:0:a/./b",
                "0:0:a/../b",
                "0:0:",
                "0:0:/foo",
                "0:0:foo/",
                "0:0:a//b",
                "0:0:\\056\\056",
            ),
            *("abc.txt", "0:abc.txt", ":0:a", "0::a", "-1:0:a", "0:-1:a", "0x0:0:a", "a:0:foo"),
            *(
                "0:0:a\\b",
                "0:0:a\\4",
                "0:0:a\\400",
                "0:0:a\\777",
                "0:0:a\\08",
                "0:0:\\",
                "0:0:a\\\\b",
            ),
        )
    },
    **{
        f"the locator {locator}": f". {locator} 0:0:foo\n"
        for locator in (
            *(E, E[1:] + "+0", f"{E}a+0", f"{E.upper()}+0", f"{E}+", f"{E}+Z+0", f"{E}+0+0"),
            *(f"{E}+0+z", f"{E}+0+Zfoo*bar", f"{E}+0+", f"{E}+0++Z", f"+{E}+0", f"{E}+0+Z+", "foo"),
        )
    },
    "a long position": f". {E}+0 {'9' * 5_000}:0:foo\n",
    "a long size": f". {E}+0 0:{'9' * 5_000}:foo\n",
    "no locator": ". 0:0:foo\n",
    "no file": f". {E}+0\n",
    "a stream alone": ".\n",
    "a locator after a file": f". {E}+0 0:0:foo {E}+0\n",
    "a file before the locator": f". 0:0:foo {E}+0\n",
    "a locator first": f"{E}+0 0:0:foo\n",
    "a leading space": f" . {E}+0 0:0:foo\n",
    "two spaces": f".  {E}+0 0:0:foo\n",
    "two spaces before a file": f". {E}+0  0:0:foo\n",
    "a trailing space": f". {E}+0 0:0:foo \n",
    "a line of a space": f". {E}+0 0:0:foo\n \n",
    "an empty line": f". {E}+0 0:0:foo\n\n",
    "an empty line first": f"\n. {E}+0 0:0:foo\n",
    "a line feed alone": "\n",
    "a carriage return": f". {E}+0 0:0:foo\r\n",
    "a tab": f".\t{E}+0 0:0:foo\n",
    "a tab before a file": f". {E}+0\t0:0:foo\n",
    "a tab in a name": f". {E}+0 0:0:a\tb\n",
    "a vertical tab": f".\v{E}+0 0:0:foo\n",
    "a vertical tab in a stream": f"./a\vb {E}+0 0:0:foo\n",
    "NUL in a name": f". {E}+0 0:0:a\0b\n",
}


@pytest.mark.parametrize("text", VALID.values(), ids=VALID)
def test_a_valid_manifest_is_read_and_written(text):
    manifest = Manifest.parse(text)
    assert Manifest.parse(str(manifest)) == manifest


@pytest.mark.parametrize("text", _FAULTY.values(), ids=_FAULTY)
def test_a_faulty_manifest_is_refused(text):
    with pytest.raises(InvalidInputError, match="is not a line of a manifest"):
        Manifest.parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", f"{E}+0"),
        (". acbd18db4cc2f85cedef654fccc4a4d8+3 0:3:foo\n", "1f4b0bc7583c2a7f9102c395f4ffc5e3+45"),
        (". 37b51d194a7513e45b56f6524f2d51f2+3 0:3:bar\n", "fa7aeb5140e2848d39b416daeef4ffc5+45"),
        (
            f". 37b51d194a7513e45b56f6524f2d51f2+3+A{'0' * 40}@00000000+Zz 0:3:bar\n",
            "fa7aeb5140e2848d39b416daeef4ffc5+45",
        ),
    ],
)
def test_the_data_hash_is_that_of_the_text_without_hints(text, expected):
    assert portable_data_hash(text) == expected
    assert Manifest.parse(text).data_hash() == expected


def test_the_data_hash_leaves_a_name_like_a_locator():
    named = f". {E}+0 0:0:{E}+0+Z\n"
    assert portable_data_hash(named) != portable_data_hash(f". {E}+0 0:0:{E}+0\n")


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        (
            f". {A}+43 0:43:m\n. {B}+41 0:41:m\n. {C}+43 0:43:m\n",
            f". {A}+43 {B}+41 {C}+43 0:127:m\n",
        ),
        (
            f". {A}+43 3:40:m\n. {B}+41 0:41:m\n. {C}+43 0:43:m\n",
            f". {A}+43 {B}+41 {C}+43 3:124:m\n",
        ),
        (f". {A}+9 0:4:b/y 4:5:a\n", f". {A}+9 4:5:a\n./b {A}+9 0:4:y\n"),
        (f". {A}+4 {B}+4 6:2:f 0:2:f\n", f". {B}+4 {A}+4 2:4:f\n"),
        (f"./b {A}+1 0:1:f\n. {A}+1 0:1:f\n", f". {A}+1 0:1:f\n./b {A}+1 0:1:f\n"),
        (f". {A}+1 0:0:f\n", f". {E}+0 0:0:f\n"),
        (f"./d {E}+0 0:0:.\n", f"./d {E}+0 0:0:\\056\n"),
        (f"./d {E}+0 0:0:.\n./d {A}+1 0:1:f\n", f"./d {A}+1 0:1:f\n"),
        (f". {E}+0 0:0:a\\072b\\040c\\134\n", f". {E}+0 0:0:a\\072b\\040c\\134\n"),
    ],
)
def test_equal_files_have_one_normal_form(text, normal):
    assert str(Manifest.parse(text).normalised()) == normal


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f". {A}+3 0:4:foo\n", "ends at byte 4 of a stream of 3 bytes"),
        (f". {A}+3 2:2:foo\n", "ends at byte 4 of a stream of 3 bytes"),
        (f". {A}+3 0:3:foo 0:3:foo/bar\n", "'foo' is a file and a folder"),
        (f"./foo {A}+3 0:3:bar\n. {A}+3 0:3:foo\n", "'foo' is a file and a folder"),
    ],
)
def test_files_that_cannot_be_are_refused(text, reason):
    with pytest.raises(InvalidInputError, match=reason):
        Manifest.parse(text).files()


def test_a_file_is_its_runs_in_the_order_of_the_text():
    text = f". {A}+4 {B}+0 {C}+4 2:4:x 7:1:y\n. {B}+2 0:2:x\n"
    a, c, b = Locator(A, 4), Locator(C, 4), Locator(B, 2)
    assert Manifest.parse(text).files() == {
        "x": [Run(a, 2, 2), Run(c, 0, 2), Run(b, 0, 2)],
        "y": [Run(c, 3, 1)],
    }


_NAMES = st.text(
    st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1
).filter(lambda name: name not in {".", ".."})
_BLOCKS = st.builds(Locator, st.sampled_from([A, B, C]), st.just(9))
_RUNS = st.tuples(_BLOCKS, st.integers(0, 8), st.integers(1, 9)).map(
    lambda run: Run(run[0], run[1], min(run[2], 9 - run[1]))
)


@given(st.dictionaries(_NAMES, st.lists(_RUNS, max_size=4), max_size=5), _NAMES)
def test_a_written_manifest_has_the_same_bytes(named, folder):
    files = {
        f"{folder}/{name}" if number % 2 else f"-{name}": runs
        for number, (name, runs) in enumerate(named.items())
    }
    if folder in files:
        return
    manifest = Manifest.of(files.items())
    read = Manifest.parse(str(manifest)).files()
    assert read.keys() == files.keys()
    for path, runs in files.items():
        assert _bytes(read[path]) == _bytes(runs)
    assert manifest.normalised() == manifest == Manifest.of(reversed(files.items()))


def _bytes(runs):
    return [(run.locator, at) for run in runs for at in range(run.offset, run.offset + run.size)]

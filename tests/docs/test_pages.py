"""Every code block of the README, the guides and the concepts works as its page says."""

import re

import pytest

from tests.docs.output import bindings, matches
from tests.docs.pages import ROOT, pages, parse, real_pages
from tests.docs.playing import BlockError, commands, play

PAGES = pages()
NOT_RUN = {
    "README.md": 5,
    "docs/guides/airflow-events.md": 1,
    "docs/guides/airflow.md": 10,
    "docs/guides/backups.md": 1,
    "docs/guides/dagster.md": 5,
    "docs/guides/delta.md": 3,
    "docs/guides/getting-started.md": 1,
    "docs/guides/iceberg.md": 1,
    "docs/guides/ingestion.md": 1,
    "docs/guides/programs.md": 3,
    "docs/guides/spark-bulk.md": 1,
    "docs/guides/spark-orchestrators.md": 4,
    "docs/concepts/architecture.md": 1,
}
"""The number of blocks of a page that are marked as not run. A number may only fall."""
HIDDEN = {
    "README.md": 2,
    "docs/guides/backups.md": 1,
    "docs/guides/command-line.md": 2,
    "docs/guides/dagster.md": 2,
    "docs/guides/garbage-collection.md": 1,
    "docs/guides/lakefs.md": 1,
    "docs/concepts/runs.md": 3,
}
"""The number of blocks of a page that readers do not see. A number may only fall."""


REAL = {page.name for page in real_pages(long=False)} - {"README.md"}
"""The pages of which only tests/real runs a block. The README's first blocks are run here, too."""


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.of("test") and page.name not in REAL],
    ids=lambda page: page.title,
)
def test_the_blocks_of(page, tmp_path):
    play(page, "test", tmp_path)


@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in page.blocks if block.file and not block.hidden],
    ids=lambda block: block.place,
)
def test_a_file_to_save_is_named_above_its_block(block):
    lines = (ROOT / block.page).read_text("utf-8").splitlines()[: block.line - 2]
    visible = re.sub(r"<!--.*?-->", "", "\n".join(lines), flags=re.DOTALL)
    assert f"`{block.file}`" in visible.rstrip().rpartition("\n\n")[2]


@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in page.of("shown")],
    ids=lambda block: block.place,
)
def test_a_block_is_in_the_file_that_it_shows(block):
    file = (ROOT / block.shows).read_text("utf-8")
    block_lines, file_lines = (
        "".join(f"{line.strip()}\n" for line in text.splitlines()) for text in (block.text, file)
    )
    assert f"\n{block_lines}" in f"\n{file_lines}"


def test_no_more_blocks_are_left_out_than_recorded():
    marked = {page.name: [block for block in page.blocks if block.tier == "none"] for page in PAGES}
    listed = "\n".join(
        f"{block.place}: {block.reason}" for blocks in marked.values() for block in blocks
    )
    assert {name: len(blocks) for name, blocks in marked.items() if blocks} == NOT_RUN, listed


def test_no_more_blocks_are_hidden_than_recorded():
    hidden = {page.name: sum(block.hidden for block in page.blocks) for page in PAGES}
    assert {name: count for name, count in hidden.items() if count} == HIDDEN


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```python\nprint(1)\n```\n```text\n2\n```\n", "is shown to print"),
        ("```console\n$ false\n```\n", "ends with 1"),
        ("```console\n$ true\nerror: no\n```\n", "ends with 0"),
        ("```console\n$ echo one\ntwo\n```\n", "is shown to print"),
        ("```sh\nfalse\ntrue\n```\n", "ends with 1"),
        ("```toml\n[kv\n```\n", "page.md:3"),
        ("```toml\n[kv]\nurl = 'mem://'\n```\n", "url"),
        ("```json\n{\n```\n", "page.md:3"),
        ("```yaml\na: [\n```\n", "page.md:3"),
    ],
)
def test_a_block_that_fails_is_reported(tmp_path, block, message):
    page = parse("page.md", f"# Page\n{block}")
    with pytest.raises(BlockError, match=re.escape(message)):
        play(page, "test", tmp_path)


@pytest.mark.parametrize(
    "block",
    [
        "```text\nalone\n```\n",
        "```\nno language\n```\n",
        "  ```sh\n```\n",
        "<!-- run: later -->\n```sh\n```\n",
    ],
)
def test_a_block_without_a_meaning_is_refused(block):
    with pytest.raises(ValueError, match=r"page\.md"):
        parse("page.md", f"# Page\n{block}")


def test_blocks_share_a_folder_a_shell_and_names(tmp_path):
    text = (
        "# Page\n<!-- file: a/b.py -->\n```python\none = 1\n```\n"
        "```console\n$ export TWO=2; cd a\n```\n```console\n$ echo $TWO; ls\n2\nb.py\n```\n"
        "```python\nfrom a.b import one\n```\n```python\nprint(one)\n```\n```text\n1\n```\n"
        "<!-- not run: it fails -->\n```sh\nfalse\n```\n<!-- run: real -->\n```sh\nfalse\n```\n"
    )
    play(parse("page.md", text), "test", tmp_path)
    again = tmp_path / "again"
    again.mkdir()
    with pytest.raises(BlockError, match="ends with 1"):
        play(parse("page.md", text), "real", again)


def test_ids_times_and_sizes_are_normalised():
    assert matches(
        "0123456789ab  2026-11-20 17:22:56  1.5 KiB", "fedcba987654  2026-11-23 01:02:03  9 B\n"
    )
    assert not matches("run 2013-01-01T05:00Z", "run 2013-01-01T06:00Z")
    assert matches("a … d\n…", "a b c d\ne\n")
    assert not matches("a … d", "a b c")


def test_an_id_of_the_page_stands_for_one_of_the_run():
    assert bindings("main is at 0123456789ab\n…", "main is at fedcba987654\n") == {
        "0123456789ab": "fedcba987654"
    }


def test_a_command_may_span_lines():
    assert list(commands("$ echo \\\n  one\none\n$ true\n")) == [
        ("echo \\\n  one\n", "one\n"),
        ("true\n", ""),
    ]

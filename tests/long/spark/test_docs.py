"""The pages of Spark whose blocks start JVMs of their own, from top to bottom."""

import pytest

from tests.docs.pages import pages, takes_long
from tests.docs.playing import play


@pytest.mark.parametrize(
    "page",
    [page for page in pages() if page.of("real") and takes_long(page)],
    ids=lambda page: page.title,
)
def test_the_blocks_of(page, tmp_path):
    play(page, "real", tmp_path)

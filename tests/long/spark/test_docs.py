"""The Spark pages whose blocks start JVMs of their own, from top to bottom."""

import pytest

from tests.docs.pages import real_pages
from tests.docs.playing import play


@pytest.mark.parametrize("page", real_pages(long=True), ids=lambda page: page.title)
def test_the_blocks_of(page, tmp_path):
    play(page, "real", tmp_path)

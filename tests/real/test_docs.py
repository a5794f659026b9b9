"""The pages with blocks for an orchestrator or a JVM; most pages of Spark are in tests/long."""

import pytest

from tests.docs.pages import real_pages
from tests.docs.playing import play


@pytest.mark.parametrize("page", real_pages(long=False), ids=lambda page: page.title)
def test_the_blocks_of(page, tmp_path):
    play(page, "real", tmp_path)

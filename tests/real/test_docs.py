"""The pages whose blocks need an orchestrator or a JVM, from top to bottom."""

import pytest

from tests.docs.pages import pages
from tests.docs.playing import play


@pytest.mark.parametrize(
    "page", [page for page in pages() if page.of("real")], ids=lambda page: page.title
)
def test_the_blocks_of(page, tmp_path):
    play(page, "real", tmp_path)

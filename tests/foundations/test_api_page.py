"""docs/reference/api.md is what the docstrings say."""

from pathlib import Path

import pytest

from tests.docs.reference import own_names, page, public_classes, row

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"


def test_the_page_is_made_of_the_docstrings():
    assert PAGE.read_text("utf-8") == page(), "run `make reference`"


@pytest.mark.parametrize("name", sorted(public_classes()))
def test_each_public_name_is_described(name):
    kind = public_classes()[name]
    assert [own for own in own_names(kind) if not row(kind, own)] == []

"""A few of the histories of two lakes; ``make simulate`` plays 500."""

import pytest

from tests.simulate.scenarios.two_lakes import play


@pytest.mark.parametrize("seed", range(20))
def test_two_lakes_show_what_plain_dicts_show(seed):
    assert play(seed, 100) == ""

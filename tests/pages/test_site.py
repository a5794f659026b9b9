import pytest

from graveler.pages import ROUTES, Site, render
from graveler.testing import World


@pytest.fixture
def world():
    return World()


@pytest.fixture
def lake(world):
    with world.open() as opened:
        yield opened


def test_every_route_is_a_page(world, lake):
    lake.create_repository("flights")
    site = Site(lake, clock=world.clock)
    statuses = {name: site.answer(f"/flights/{name}", {}).status for name in ROUTES}
    assert set(statuses.values()) <= {200, 400}


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/", 200, "flights"),
        ("/flights", 200, "flights"),
        ("/flights/", 200, "flights"),
        ("/trains", 404, "no repository"),
        ("/flights/nothing", 404, "no page"),
        ("/flights/commit/x", 404, "no page"),
    ],
)
def test_paths(world, lake, path, status, text):
    lake.create_repository("flights")
    page = Site(lake, clock=world.clock).answer(path, {})
    assert (page.status, text in render(page)) == (status, True)


def test_an_empty_lake_says_what_comes_next(world, lake):
    assert "graveler repo create" in render(Site(lake, clock=world.clock).answer("/", {}))

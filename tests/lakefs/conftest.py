import pytest

from graveler.objects.registry import open_store
from graveler.testing import World
from tests.harness.lakefs import LakefsWriter


@pytest.fixture
def world():
    return World()


@pytest.fixture
def source(world):
    """The root of an empty storage namespace."""
    return f"{world.config.storage_uri}-lakefs/ns"


@pytest.fixture
def lakefs(source):
    """Writes a lakeFS repository below `source`."""
    return LakefsWriter(open_store(source).put)

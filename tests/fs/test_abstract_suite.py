"""fsspec's own suite for filesystems: copy, get, put, open and pipe."""

import pytest
from fsspec.tests import abstract


class Fixtures(abstract.AbstractFixtures):  # type: ignore[misc]  # fsspec has no types
    @pytest.fixture
    def fs(self, grav):
        return grav

    @pytest.fixture
    def fs_path(self):
        return "flights/dev"

    @pytest.fixture
    def fs_join(self):
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def supports_empty_directories(self):
        return False


class TestCopy(abstract.AbstractCopyTests, Fixtures):  # type: ignore[misc]  # fsspec has no types
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):  # type: ignore[misc]  # fsspec has no types
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):  # type: ignore[misc]  # fsspec has no types
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):  # type: ignore[misc]  # fsspec has no types
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):  # type: ignore[misc]  # fsspec has no types
    pass

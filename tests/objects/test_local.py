import pytest

from graveler.objects.local import LocalStore
from graveler.testing.objects_suite import ObjectStoreSuite


class TestLocalStore(ObjectStoreSuite):
    @pytest.fixture
    def store(self, tmp_path):
        return LocalStore(tmp_path / "new" / "objects")

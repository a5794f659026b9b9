"""One engine on the default stores of a new lake. The suites of the ports cover other stores."""

import pytest

from graveler.base.background import Inline
from graveler.config import LakeConfig
from graveler.lake.factory import connect
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.lakes import LAKES, SMALL, kv_uri, storage


@pytest.fixture(params=["sqlite-local"])
def lake(request, tmp_path):
    kv, objects = LAKES[request.param]
    uri, options = storage(objects, tmp_path, request)
    config = LakeConfig(
        location=str(tmp_path),
        kv_uri=kv_uri(kv, tmp_path, request),
        storage_uri=uri,
        storage_options=options,
        cache_folder=tmp_path / "cache",
    )
    with connect(config, clock=FakeClock(), ids=SequenceIds(), background=Inline()) as opened:
        yield opened


@pytest.fixture
def repo(lake):
    return lake.create_repository("flights", splitting=SMALL)

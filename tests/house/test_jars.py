import re
from hashlib import sha256

import pytest

from tests.jars.__main__ import address_of, fetch


def test_coordinates_stand_for_an_address(monkeypatch):
    place = "io/delta/delta-storage/4.1.0/delta-storage-4.1.0.jar"
    assert re.fullmatch(
        rf"https://[^/]+/maven2/{place}", address_of("io.delta:delta-storage:4.1.0")
    )
    place = "org/apache/iceberg/iceberg-core/1.11.0/iceberg-core-1.11.0-tests.jar"
    assert address_of("org.apache.iceberg:iceberg-core:1.11.0:tests").endswith(f"/{place}")
    place = "io/delta/delta-storage/4.1.0/delta-storage-4.1.0.jar"
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "https://mirror.example/maven")
    assert address_of("io.delta:delta-storage:4.1.0") == f"https://mirror.example/maven/{place}"


def test_a_jar_is_fetched_once_and_checked_each_time(tmp_path):
    source, folder = tmp_path / "a-1.jar", tmp_path / "jars"
    folder.mkdir()
    source.write_bytes(b"jar")
    pin = (source.as_uri(), sha256(b"jar").hexdigest(), folder)
    jar = fetch(*pin)
    source.unlink()
    assert fetch(*pin) == jar
    jar.write_bytes(b"other")
    with pytest.raises(SystemExit, match="the file was removed"):
        fetch(*pin)
    assert not list(folder.iterdir())

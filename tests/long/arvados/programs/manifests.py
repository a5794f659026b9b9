"""Arvados's client: a collection there and back. ``URLS TOKEN``."""

import os
import sys

from arvados.collection import Collection, CollectionReader
from arvados.keep import KeepClient

client = KeepClient(proxy=sys.argv[1], api_token=sys.argv[2], num_retries=0)
files = {"large": os.urandom(70 << 20), "a b/x:y.txt": b"foo", "b/empty": b"", "ü": b"bar"}
collection = Collection(keep_client=client, replication_desired=2)
for path, content in files.items():
    with collection.open(path, "wb") as file:
        file.write(content)
collection.mkdirs("empty folder")
collection.save_new(create_collection_record=False)
manifest = collection.manifest_text()
reader = CollectionReader(manifest, keep_client=client, replication_desired=2)
for path, content in files.items():
    with reader.open(path, "rb") as file:
        assert file.read() == content, path
sys.stdout.write(manifest)

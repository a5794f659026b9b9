"""Arvados's client: blocks of all sizes, with copies on several servers. ``URLS TOKEN FOLDER``."""

import os
import sys
from pathlib import Path

from arvados.keep import KeepClient


def main(urls: str, token: str, folder: Path) -> None:
    """Put, get and look for blocks; then wait for faults, and get them again."""
    client = KeepClient(proxy=urls, api_token=token, num_retries=0)
    put = {}
    for size in (0, 1, (1 << 20) + 1, 64 << 20):
        content = os.urandom(size)
        locator = client.put(content, copies=2)
        put[locator] = content
        client.block_cache.clear()
        assert client.head(locator)
        assert client.get(locator) == content
        print("stored", size, locator, flush=True)
    print("ready", flush=True)
    sys.stdin.readline()
    for locator, content in put.items():
        client.block_cache.clear()
        assert client.get(locator) == content, locator
    more = os.urandom(1000)
    locator = client.put(more, copies=2)
    client.block_cache.clear()
    assert client.get(locator) == more
    print("read again", flush=True)
    del folder


main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

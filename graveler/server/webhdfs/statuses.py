"""The JSON documents of WebHDFS."""

import json
from collections.abc import Iterable
from typing import Any

from graveler.base.clock import unix_us
from graveler.model import Entry
from graveler.server.webhdfs.memory import Folder
from graveler.server.webhdfs.tree import Node, Summary

_OWNER = "graveler"
_BLOCK_BYTES = 128 << 20
"""The block size that Spark sees, and so the size of a task's part of a file."""
_HOST = "localhost"  # Spark treats it as no particular host


def file_status(node: Node, name: str = "", *, writable: bool) -> dict[str, Any]:
    """Return the status of a file or folder."""
    if isinstance(node, Folder):
        return _status("DIRECTORY", name, 0, 0, 0, "755" if writable else "555")
    changed = 0 if node.mtime is None else unix_us(node.mtime) // 1000
    permission = "644" if writable else "444"
    return _status("FILE", name, node.size, changed, _BLOCK_BYTES, permission)


def _status(
    kind: str, suffix: str, length: int, changed: int, block: int, permission: str
) -> dict[str, Any]:
    return {
        "pathSuffix": suffix,
        "type": kind,
        "length": length,
        "owner": _OWNER,
        "group": _OWNER,
        "permission": permission,
        "accessTime": changed,
        "modificationTime": changed,
        "blockSize": block,
        "replication": 1 if kind == "FILE" else 0,
        "childrenNum": 0,
        "fileId": 0,
        "storagePolicy": 0,
    }


SERVER_DEFAULTS = {
    "FsServerDefaults": {
        "blockSize": _BLOCK_BYTES,
        "bytesPerChecksum": 512,
        "checksumType": 2,
        "encryptDataTransfer": False,
        "fileBufferSize": 4096,
        "replication": 1,
        "trashInterval": 0,
        "writePacketSize": 64 << 10,
    }
}
"""What clients read before they write by Hadoop's FileContext, as streams do."""


def listing(nodes: Iterable[tuple[str, Node]], left: int | None = None, *, writable: bool) -> bytes:
    """Return the list of a folder's content as JSON.

    Each status is encoded at once, and all are joined once, because a list may be long.
    """
    document: dict[str, Any] = {"FileStatuses": {"FileStatus": []}}
    if left is not None:
        document = {"DirectoryListing": {"partialListing": document, "remainingEntries": left}}
    before, _, after = json.dumps(document).encode().partition(b"]")
    shown = [
        json.dumps(file_status(node, name, writable=writable)).encode() for name, node in nodes
    ] or [b""]
    shown[0] = before + shown[0]
    shown[-1] += b"]" + after
    return b", ".join(shown)


def summary(of: Summary) -> dict[str, Any]:
    """Return the number and size of the files and folders below a path."""
    return {
        "ContentSummary": {
            "directoryCount": of.folders,
            "fileCount": of.files,
            "length": of.bytes,
            "quota": -1,
            "spaceConsumed": of.bytes,
            "spaceQuota": -1,
        }
    }


def block_locations(entry: Entry) -> dict[str, Any]:
    """Return the locations of a file's blocks: one block on no particular host."""
    block = {
        "cachedHosts": [],
        "corrupt": False,
        "hosts": [_HOST],
        "length": entry.size,
        "names": [f"{_HOST}:0"],
        "offset": 0,
        "storageTypes": ["DISK"],
        "topologyPaths": [f"/default-rack/{_HOST}:0"],
    }
    return {"BlockLocations": {"BlockLocation": [block] if entry.size else []}}


def located_blocks(entry: Entry) -> dict[str, Any]:
    """Return the locations of a file's blocks in the older form."""
    block = {
        "block": {
            "blockId": 0,
            "blockPoolId": _OWNER,
            "generationStamp": 0,
            "numBytes": entry.size,
        },
        "blockToken": {"urlString": "AAAAAA"},
        "cachedLocations": [],
        "isCorrupt": False,
        "locations": [],
        "startOffset": 0,
        "storageTypes": [],
    }
    return {
        "LocatedBlocks": {
            "fileLength": entry.size,
            "isLastBlockComplete": True,
            "isUnderConstruction": False,
            "lastLocatedBlock": block if entry.size else None,
            "locatedBlocks": [block] if entry.size else [],
        }
    }

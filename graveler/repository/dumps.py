"""Dump and restore of refs, beside the storage that holds what they name."""

import os
from pathlib import Path

from graveler.committed import EMPTY_METARANGE, RangeStore
from graveler.errors import InvalidInputError, NotFoundError, ObjectNotFoundError
from graveler.reads.stores import Stores
from graveler.refs.dump import Contents, Header, read_dump, write_dump
from graveler.refs.restore import check_room, restore_refs


def dump(stores: Stores, path: Path, *, storage: str) -> Contents:
    """Write all refs to a file; where there is one, it is replaced once the new one is whole.

    Args:
        stores: The repository.
        path: The file.
        storage: What it says of where the objects are; "" for below the lake's storage.

    Raises:
        NotFoundError: Its folder is not there.
        InvalidInputError: It is a folder, a pipe or a device.
    """
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder: name a file for the dump")
    if not path.parent.is_dir():
        raise NotFoundError(f"no folder {path.parent} for the dump: make it first")
    if path.exists() and not path.is_file():
        raise InvalidInputError(f"{path} is no regular file, and a dump replaces it: name another")
    rule = stores.splitting
    header = Header(
        repository=stores.name,
        storage=storage,
        default_branch=stores.default_branch,
        splitting=(rule.min_bytes, rule.max_bytes, rule.raggedness),
    )
    beside = path.with_name(f".{path.name}.{stores.ids.unique()}")
    try:
        with beside.open("xb") as file:
            contents = write_dump(stores.refs, header, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return contents


def check_storage(ranges: RangeStore, contents: Contents) -> None:
    """Look for the trees of all that a dump's branches and tags name.

    Raises:
        ObjectNotFoundError: One is not in the storage.
    """
    for identifier, tree in contents.trees.items():
        if tree == EMPTY_METARANGE:
            continue
        try:
            ranges.objects.head(ranges.key(bytes.fromhex(tree)))
        except ObjectNotFoundError:
            raise ObjectNotFoundError(
                f"{ranges.objects.root} has not the tree of commit {identifier[:12]}: restore the "
                "dump over the storage that it was made beside; nothing was written"
            ) from None


def restore(stores: Stores, path: Path) -> Contents:
    """Have all refs that a dump holds; what is there already stays. May be repeated.

    Raises:
        InvalidInputError: The file is no dump.
        CorruptionError: It is damaged, or a commit is not what its id says.
        ObjectNotFoundError: The storage has not what its refs name.
        AlreadyExistsError: Branches or tags of the same names are elsewhere.
    """
    contents = read_dump(path)
    check_storage(stores.ranges, contents)
    check_room(stores.refs, contents)
    restore_refs(stores.refs, contents, path)
    return contents

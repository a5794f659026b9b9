"""Fetch the jars of a set into a folder: ``python -m tests.jars s3a build/jars/s3a``.

The sets and the SHA-256 of each jar are in ``pins.toml``. A jar that exists is checked and not
fetched again. Jars come from the repository that Spark's own resolver uses: the mirror in
``DEFAULT_ARTIFACT_REPOSITORY``, or else the address that is built into Spark.
"""

import hashlib
import re
import sys
import tomllib
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pyspark

from graveler.config import environment

_PINS = Path(__file__).with_name("pins.toml")
_RESOLVER = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"
_BLOCK = 1 << 20


def central() -> str:
    """Return the address of the package repository, with a slash at its end."""
    if mirror := environment("DEFAULT_ARTIFACT_REPOSITORY"):
        return f"{mirror.rstrip('/')}/"
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    found = re.search(rb"https://[\w./-]+/maven2/", ZipFile(ivy).read(_RESOLVER))
    if found is None:
        sys.exit(
            f"{ivy.name} names no repository: set DEFAULT_ARTIFACT_REPOSITORY to the address of one"
        )
    return found[0].decode()


def address_of(coordinates: str) -> str:
    """Return the address of the jar of ``group:artifact:version[:classifier]`` in the repository."""
    group, artifact, version, *classifier = coordinates.split(":")
    folder = f"{group.replace('.', '/')}/{artifact}/{version}"
    return f"{central()}{folder}/{'-'.join([artifact, version, *classifier])}.jar"


def fetch(address: str, digest: str, folder: Path) -> Path:
    """Fetch the jar at an address into a folder, unless it exists; return its path.

    Raises:
        SystemExit: Its SHA-256 differs from the digest.
    """
    jar = folder / address.rpartition("/")[2]
    part = jar if jar.exists() else jar.with_suffix(".part")
    if part != jar:
        with urlopen(address, timeout=60) as reply, part.open("wb") as file:  # noqa: S310 - of pins
            while block := reply.read(_BLOCK):
                file.write(block)
    with part.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        part.unlink()
        sys.exit(f"{address}: SHA-256 {found}, and not {digest}: the file was removed")
    return part.replace(jar)


def main(name: str, folder: Path) -> None:
    """Fetch the jars of a set; remove others from the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pins = tomllib.loads(_PINS.read_text())[name]
    jars = {fetch(address_of(jar), digest, folder) for jar, digest in pins.items()}
    for other in set(folder.iterdir()) - jars:
        other.unlink()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""Iceberg's compatibility kit on the branch of a run, beside a thread that moves the other branches."""

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event
from xml.etree import ElementTree

import pytest

import graveler
from graveler.config import program_environment
from graveler.frames.spark.java import find_java
from graveler.iceberg.engines import warehouse_of
from graveler.server import Server
from graveler.tables.files import StoreFiles
from tests.harness.iceberg import catalog_of, rows, with_table

JARS = Path(__file__).parents[3] / "build" / "jars" / "iceberg-kit"
KIT = "org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests"
SETTINGS = {
    "rck.local": "false",
    "rck.requires-namespace-create": "true",
    "rck.supports-serverside-retry": "true",
    "rck.overrides-requested-location": "true",
    "rck.supports-names-with-dot": "true",
}


@dataclass(frozen=True, slots=True)
class Kit:
    """What the kit has left.

    Attributes:
        run: The run on whose branch it ran.
        outcomes: How each test ended, and what the kit says about it.
        rounds: How often the other branches moved meanwhile.
    """

    repo: graveler.Repository
    run: graveler.Run
    outcomes: dict[str, tuple[str, str]]
    rounds: int


@pytest.fixture(scope="package")
def kit(tmp_path_factory):
    scratch = tmp_path_factory.mktemp("kit")
    files = scratch / "files"
    files.mkdir()
    with graveler.init(scratch / "lake") as lake, pytest.MonkeyPatch.context() as patch:
        repo = lake.create_repository("flights")
        repo.links.allow(str(files))
        run = repo.runs.open("kit")
        lend_files(patch, files)
        stop = Event()
        with Server(lake) as server, ThreadPoolExecutor(1) as pool:
            moving = pool.submit(move, repo, stop)
            try:
                run_kit(server, warehouse_of(run), scratch)
            finally:
                stop.set()
            rounds = moving.result()
        yield Kit(repo, run, dict(outcomes(scratch / "reports")), rounds)


def lend_files(patch, folder):
    """Let there be the data files that the kit names.

    It adds `/path/to/data-a.parquet`, names without a folder, and files without content, all of them
    with a size of 10, and reads none.
    """
    address, live = StoreFiles.address, StoreFiles.live

    def moved(self, location):
        name = location.removeprefix("/path/to/")
        return address(self, location if "/" in name else (folder / name).as_uri())

    def filled(self, manifests):
        found = live(self, manifests)
        for location, size in found.items():
            file = self.new_input(location)
            if not (file.exists() and len(file)):
                store, key = self._stores.locate(moved(self, location))
                store.put(key, bytes(size))
        return found

    patch.setattr(StoreFiles, "address", moved)
    patch.setattr(StoreFiles, "live", filled)


def move(repo, stop):
    """Move the other branches until told to stop, with tables of the kit's names among theirs."""
    main = repo.branch("main")
    table = with_table(catalog_of(main), table="beside.flights")
    for number in count():
        if stop.wait(0.1):
            return number
        table.append(rows(number))
        work = repo.create_branch(f"work-{number}")
        work.put(f"files/{number}", b"1")
        work.commit("a file")
        repo.merge(work, into="main")
        other = repo.create_branch(f"other-{number}")
        with_table(catalog_of(other), number, table="newdb.newtable")
        repo.delete_branch(work)
    raise AssertionError


def run_kit(server, warehouse, scratch):
    """Run the kit."""
    settings = {
        **SETTINGS,
        "uri": server.iceberg,
        "oauth2-server-uri": f"{server.iceberg}/v1/oauth/tokens",
        "token": server.token,
        "warehouse": warehouse,
        "java.io.tmpdir": scratch,
    }
    command = [str(find_java() / "bin" / "java"), "-Xmx1g"]
    command += [f"-D{name}={value}" for name, value in settings.items()]
    command += ["-cp", f"{JARS}/*", "org.junit.platform.console.ConsoleLauncher", "execute"]
    command += [f"--select-class={KIT}", f"--reports-dir={scratch / 'reports'}"]
    command += ["--details=none", "--disable-banner"]
    subprocess.run(
        command,
        cwd=scratch,
        env=program_environment({}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=500,
    )


def outcomes(reports) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield how each test ended, and the words of the kit."""
    for report in reports.glob("*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - the kit's own file
            name = re.sub(r"\(.*?\)", "", case.get("name", ""))
            told = "".join(each.text or "" for each in case if each.tag != "system-out")
            if not told:
                yield name, ("passed", "")
            elif case.find("skipped") is None:
                yield name, ("failed", told)
            else:
                yield name, ("aborted" if "AssumptionViolated" in told else "skipped", told)

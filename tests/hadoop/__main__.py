"""Run Hadoop's own tests of a file system against the server.

Maven fetches Hadoop's client and tests once, 100 MB, into the folder. The exit code is 1 if a test
fails that the guide does not list with a reason, or a listed one does not fail.
"""

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import graveler
from graveler.server import Server, spark_settings
from tests.hadoop.sources import SUPPORTED, sources

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs" / "guides" / "gateway.md"
_NAME = re.compile(r"`([A-Z]\w+\.test\w+)`")


def built(folder: Path) -> str:
    """Fetch the jars and compile the classes; return the class path."""
    jars = folder / "jars"
    if not jars.is_dir():
        shutil.copy(HERE / "pom.xml", folder)
        command = ["mvn", "--quiet", "--batch-mode", "dependency:copy-dependencies"]
        subprocess.run([*command, f"-DoutputDirectory={jars}"], cwd=folder, check=True)
    java, classes = folder / "java", folder / "classes"
    for place in (java, classes):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    for name, text in sources().items():
        (java / f"{name}.java").write_text(text)
    files = [str(file) for file in java.iterdir()]
    subprocess.run(["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), *files], check=True)
    lines = "log4j.rootLogger=ERROR,a\nlog4j.appender.a=org.apache.log4j.varia.NullAppender\n"
    (classes / "log4j.properties").write_text(lines)
    return os.pathsep.join([str(classes), *map(str, sorted(jars.glob("*.jar")))])


def run(folder: Path, classpath: str, tests: str) -> None:
    """Run the tests on a branch of a new lake; their reports come into the folder."""
    scratch = Path(tempfile.mkdtemp(dir=folder))
    with graveler.init(scratch / "lake") as lake:
        lake.create_repository("flights").create_branch("dev")
        with Server(lake) as server:
            settings = {
                name.removeprefix("spark.hadoop."): value
                for name, value in spark_settings(server.address, server.token).items()
            }
            settings |= {f"fs.contract.{name}": "true" for name in SUPPORTED}
            settings |= {"fs.defaultFS": server.address}
            properties = {
                "graveler.address": server.address,
                "graveler.branch": "/flights/dev",
                "graveler.settings": ",".join(
                    f"{name}={value}" for name, value in settings.items()
                ),
                "java.io.tmpdir": scratch,
                "test.build.data": scratch / "data",
                "user.home": scratch,
            }
            command = [
                "java",
                "-Xmx1g",
                *(f"-D{name}={value}" for name, value in properties.items()),
            ]
            command += ["-cp", classpath, "org.junit.platform.console.ConsoleLauncher", "execute"]
            command += [f"--scan-classpath={folder / 'classes'}", "--disable-banner"]
            command += [f"--include-classname=graveler.{tests}", "--details=none"]
            command += [f"--reports-dir={folder / 'reports'}"]
            with (folder / "log.txt").open("wb") as log:
                subprocess.run(command, cwd=scratch, check=False, stdout=log, stderr=log)
    shutil.rmtree(scratch, ignore_errors=True)  # threads of the server still close their files


def results(folder: Path) -> list[tuple[str, str]]:
    """Return how each test ended: "" for a success, "skipped", or the error."""
    found = []
    for report in (folder / "reports").glob("*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - our own file
            suite = case.get("classname", "").removeprefix("graveler.Test")
            name = f"{suite}.{case.get('name', '').partition('(')[0]}"
            outcome = "" if case.find("skipped") is None else "skipped"
            for each in (*case.iter("failure"), *case.iter("error")):
                lines = f"{each.get('type')}: {each.get('message') or each.text}".splitlines()
                outcome = lines[0][:200]
            found.append((name, outcome))
    return found


def main() -> None:
    """Run the tests and report what the guide does not list."""
    parser = argparse.ArgumentParser(prog="python -m tests.hadoop", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/hadoop"))
    parser.add_argument("--tests", default="Test.*", help="classes, a regular expression")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "reports", ignore_errors=True)
    run(folder, built(folder), given.tests)
    found = results(folder)
    failed = {name: told for name, told in found if told not in {"", "skipped"}}
    skipped = sum(told == "skipped" for _, told in found)
    passed = sum(told == "" for _, told in found)
    print(f"{len(found)} tests: {passed} passed, {skipped} skipped, failed: {len(failed)} names")
    listed = set(_NAME.findall(GUIDE.read_text("utf-8")))
    surprises = {name: told for name, told in failed.items() if name not in listed}
    surprises |= {name: "passes" for name, told in found if name in listed and name not in failed}
    for name, told in sorted(surprises.items()):
        print(f"{name}: {told}")
    raise SystemExit(bool(surprises) or not found)


main()

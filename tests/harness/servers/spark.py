"""A standalone Spark cluster on one machine, whose executors tests kill, stop and starve.

It has a master and two workers, each at its own loopback address, because Spark runs a second copy of a
slow task only on another host. It uses the Spark of the Python package, and needs Linux for
``127.0.0.2``.
"""

import json
import secrets
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from time import monotonic
from typing import Any

import psutil
import pyspark

from graveler.base.clock import SystemClock
from graveler.config import program_environment
from graveler.frames.spark.java import find_java
from tests.harness.wires import free_port

ROOT = Path(__file__).resolve().parents[3]
HOSTS = ("127.0.0.2", "127.0.0.3")
SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE_S = 300  # a machine that is busy with other tests is slow

_MARK = "GRAVELER_TEST_CLUSTER"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_ON_LOOPBACK: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
_LOCAL: Mapping[str, str] = {
    **_ON_LOOPBACK,
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": _SMALL_JVM,
}

SETTINGS: Mapping[str, str] = {
    **_ON_LOOPBACK,
    "spark.driver.memory": "512m",
    "spark.executor.memory": "700m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": _SMALL_JVM,
    "spark.cores.max": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
}
"""Settings of an application: a one-core executor at each worker, and a second copy of slow tasks."""


def wait_until(done: Callable[[], Any], what: str) -> Any:
    """Wait for a result that is true, and return it."""
    until = monotonic() + PATIENCE_S
    while not (found := done()):
        assert monotonic() < until, f"waited {PATIENCE_S} s for {what}"
        SystemClock().sleep(0.02)
    return found


@dataclass(frozen=True)
class Executor:
    """An executor of an application.

    Attributes:
        jvm: Its process.
        host: The address of its worker.
        app: Id of the application.
    """

    jvm: psutil.Process
    host: str
    app: str

    @property
    def daemons(self) -> list[psutil.Process]:
        """The processes that fork its Python processes."""
        return list(self.jvm.children())

    @property
    def pythons(self) -> list[psutil.Process]:
        """The Python processes of its tasks."""
        return [python for daemon in self.daemons for python in daemon.children()]

    def limit_files(self, size: int) -> None:
        """Limit the size of its files, which acts like a full disk."""
        for process in (self.jvm, *self.daemons, *self.pythons):
            process.rlimit(psutil.RLIMIT_FSIZE, (size, psutil.RLIM_INFINITY))


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        url: The URL for ``master``.
        folder: Folder of the logs and of the executors' working folders.
        mark: A mark in the environment of each of its processes.
    """

    url: str
    folder: Path
    mark: str

    @property
    def processes(self) -> list[psutil.Process]:
        """All processes of the cluster."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(_MARK) == self.mark:
                    found.append(process)
        return found

    @property
    def workers(self) -> list[psutil.Process]:
        """The processes that start executors and end those whose driver is gone."""
        return [process for process in self.processes if _WORKER in process.cmdline()]

    def executors(self, app: str) -> list[Executor]:
        """Return the executors of an application, by host."""
        found = []
        for process in self.processes:
            with suppress(psutil.Error):
                words = process.cmdline()
                if _EXECUTOR in words and _after(words, "--app-id") == app:
                    found.append(Executor(process, _after(words, "--hostname"), app))
        return sorted(found, key=lambda executor: executor.host)

    def both(self, app: str) -> list[Executor]:
        """Wait until an application has an executor at each worker; return them."""

        def ready() -> list[Executor]:
            there = self.executors(app)
            return there if [executor.host for executor in there] == [*HOSTS] else []

        return list(wait_until(ready, f"two executors of {app}"))


def _after(words: Sequence[str], name: str) -> str:
    return words[words.index(name) + 1]


@contextmanager
def spark_cluster() -> Iterator[Cluster]:
    """Run a cluster for a block; no process of it is left behind."""
    folder = Path(tempfile.mkdtemp(prefix="graveler-cluster-"))
    port, page = free_port(), free_port()
    cluster = Cluster(f"spark://127.0.0.1:{port}", folder, secrets.token_hex(8))
    daemons: list[psutil.Popen] = []
    try:
        at = ("--host", "127.0.0.1", "--port", port, "--webui-port", page)
        daemons.append(_start(cluster, "master", "deploy.master.Master", {}, *at))
        wait_until(lambda: _alive(page) is not None, "the master of the cluster")
        for host in HOSTS:
            work = folder / host
            work.mkdir()
            of = {"SPARK_LOCAL_IP": host, "SPARK_LOCAL_DIRS": str(work)}
            size = ("--cores", 4, "--memory", "3g", "--work-dir", work)  # Spark only counts them
            words = ("--host", host, *size, cluster.url)
            daemons.append(_start(cluster, host, "deploy.worker.Worker", of, *words))
        wait_until(lambda: _alive(page) == len(HOSTS), "the workers of the cluster")
        yield cluster
    finally:
        for daemon in daemons:
            _end(daemon)  # end it first, because another wait would take its exit code
        while left := cluster.processes:  # a worker may have started an executor meanwhile
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left)
        rmtree(folder, ignore_errors=True)


@contextmanager
def connect_server(cluster: Cluster, settings: Path) -> Iterator[str]:
    """Run a server of Spark Connect for a block; yield its address.

    Args:
        cluster: The cluster of its executors; with a master ``local[…]`` the server runs them itself.
        settings: The file of its settings.
    """
    port = free_port()
    options = {"grpc.binding.port": port, "grpc.binding.address": "127.0.0.1"}
    words = [f"--conf=spark.connect.{name}={value}" for name, value in options.items()]
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    of = {"PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "600m"}
    server = _start(
        *(cluster, "connect", "deploy.SparkSubmit", of),
        *("--class", kind, "--master", cluster.url, "--properties-file", settings, *words),
    )
    try:
        wait_until(lambda: _listens(port, server), "the server of Spark Connect")
        yield f"sc://127.0.0.1:{port}"
    finally:
        _end(server)


@contextmanager
def local_connect_server(folder: Path) -> Iterator[str]:
    """Run a server of Spark Connect without a cluster for a block; yield its address.

    Args:
        folder: Folder of its settings and logs.
    """
    settings = folder / "spark.conf"
    settings.write_text("".join(f"{name} {value}\n" for name, value in _LOCAL.items()))
    with connect_server(Cluster("local[2]", folder, secrets.token_hex(8)), settings) as url:
        yield url


def write_settings(file: Path, **more: str) -> Path:
    """Write the settings of an application as a file for spark-submit; return it."""
    lines = [f"{name} {value}" for name, value in {**SETTINGS, **more}.items()]
    file.write_text("\n".join(lines))
    return file


def _start(
    cluster: Cluster, name: str, kind: str, variables: Mapping[str, str], *arguments: object
) -> psutil.Popen:
    environment = {
        _MARK: cluster.mark,
        "JAVA_HOME": str(find_java()),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_DAEMON_MEMORY": "300m",
        "SPARK_DAEMON_JAVA_OPTS": f"{_SMALL_JVM} -Dspark.worker.timeout={PATIENCE_S}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'integrations'}",
        **variables,
    }
    program = SPARK_HOME / "bin" / "spark-class"
    with (cluster.folder / f"{name}.log").open("wb") as log:
        return psutil.Popen(
            [str(program), f"org.apache.spark.{kind}", *map(str, arguments)],
            cwd=cluster.folder,
            env=program_environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _end(server: psutil.Popen) -> None:
    with suppress(psutil.NoSuchProcess):
        server.kill()
    server.wait()


def _listens(port: int, server: psutil.Popen) -> bool:
    assert server.poll() is None, f"the server ended with {server.returncode}"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _alive(page: int) -> int | None:
    """Return the number of workers that the master knows; None before it answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with suppress(OSError), opener.open(f"http://127.0.0.1:{page}/json/", timeout=10) as answer:
        return int(json.load(answer)["aliveworkers"])
    return None

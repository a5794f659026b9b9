"""A system of Keep whose servers a test loses and replaces."""

import shutil
from datetime import timedelta

from graveler.datamanager.manager import DataManager
from graveler.keep.locators import Locator
from graveler.server.keep.service import KeepServer

TTL = timedelta(days=14)
FOO = Locator.of(b"foo")


class System:
    """Servers of the system ``main`` that a test loses and replaces."""

    def __init__(self, lake, folder, names="abc", ttl=TTL):
        self.lake = lake
        self.folder = folder
        self.servers = {}
        lake.keep.create("main", ttl=ttl)
        for name in names:
            self.start(name)

    def start(self, name, uuid="", tls=None):
        server = KeepServer(self.lake, "main", [self.folder / name], new_disks=bool(uuid), tls=tls)
        url = server.address.replace("https://127.0.0.1", "keep+tls://localhost")
        record = self.lake.keep.add_server("main", url, uuid)
        self.servers[name] = server, record.uuid

    def lose(self, name):
        server, uuid = self.servers.pop(name)
        server.cut()
        shutil.rmtree(self.folder / name)
        return uuid

    def sweep(self, **options):
        receipt = DataManager(self.lake, "main").sweep(**options)
        for server, _ in self.servers.values():
            server.pulls.wait()
            server.trash.wait()
        return receipt

    def copies(self, locator=FOO):
        return [
            name
            for name, (server, _) in self.servers.items()
            if any(line.split()[0] == locator.bare for line in server.store.index())
        ]

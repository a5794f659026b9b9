"""A stub of Arvados's API: the requests that ``arv-put`` and ``arv-get`` send, over TLS.

Collections are those of a system of Keep of a lake; the stub signs their manifests for its one token.
"""

import json
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from graveler.collections.collections import Collection, Collections
from graveler.errors import NotFoundError
from graveler.keep.locators import EMPTY
from graveler.keep.manifests import Manifest, Stream

USER = "grave-tpzed-000000000000000"


def _method(path: str, verb: str, **parameters: str) -> dict[str, Any]:
    places = {
        name: {"type": "string", "required": where == "path", "location": where}
        for name, where in parameters.items()
    }
    return {
        "id": f"arvados.{path}",
        "path": path,
        "httpMethod": verb,
        "parameters": places,
        "response": {"$ref": "Any"},
        "request": {"required": False, "properties": {}},
    }


def discovery(root: str) -> dict[str, Any]:
    """Return the discovery document of the API."""
    listing = {
        "offset": "query",
        "limit": "query",
        "filters": "query",
        "order": "query",
        "count": "query",
        "select": "query",
        "where": "query",
        "distinct": "query",
        "include_trash": "query",
    }
    return {
        "kind": "discovery#restDescription",
        "discoveryVersion": "v1",
        "id": "arvados:v1",
        "name": "arvados",
        "version": "v1",
        "revision": "20260101",
        "protocol": "rest",
        "parameters": {},
        "uuidPrefix": "grave",
        "defaultCollectionReplication": 2,
        "defaultTrashLifetime": 1_209_600,
        "blobSignatureTtl": 1_209_600,
        "maxRequestSize": 134_217_728,
        "maxItemsPerResponse": 1000,
        "websocketUrl": None,
        "workbenchUrl": "",
        "rootUrl": root,
        "basePath": "/arvados/v1/",
        "baseUrl": f"{root}arvados/v1/",
        "servicePath": "arvados/v1/",
        "batchPath": "batch",
        "schemas": {"Any": {"id": "Any", "type": "object", "properties": {}}},
        "resources": {
            "collections": {
                "methods": {
                    "create": _method(
                        "collections", "POST", ensure_unique_name="query", select="query"
                    ),
                    "get": _method(
                        "collections/{uuid}",
                        "GET",
                        uuid="path",
                        select="query",
                        include_trash="query",
                    ),
                    "update": _method("collections/{uuid}", "PUT", uuid="path", select="query"),
                    "list": _method("collections", "GET", **listing),
                }
            },
            "users": {"methods": {"current": _method("users/current", "GET")}},
            "configs": {"methods": {"get": _method("config", "GET")}},
            "keep_services": {
                "methods": {
                    "accessible": _method("keep_services/accessible", "GET"),
                    "list": _method("keep_services", "GET", **listing),
                }
            },
            "groups": {"methods": {"get": _method("groups/{uuid}", "GET", uuid="path")}},
        },
    }


class Api:
    """What the stub answers."""

    def __init__(
        self, collections: Collections, signer: Any, token: str, clock: Any, servers: Any
    ) -> None:
        self.collections = collections
        self.signer = signer
        self.token = token
        self.clock = clock
        self.servers = servers
        self.requests: list[str] = []

    def answer(self, method: str, target: str, body: bytes, root: str) -> tuple[int, Any]:
        """Return status and document."""
        url = urlsplit(target)
        path = url.path.removeprefix("/arvados/v1/")
        self.requests.append(f"{method} {path}")
        documents: dict[str, Any] = {
            "config": {"StorageClasses": {"default": {"Default": True}}, "Collections": {}},
            "users/current": {"uuid": USER, "is_active": True, "is_admin": True},
            "keep_services/accessible": {"items": self._services()},
        }
        match method, path.split("/"):
            case "GET", ["", "discovery", *_]:
                return 200, discovery(root)
            case "POST", ["collections"]:
                return 200, self._created(_form(url.query, body))
            case "GET", ["collections", name]:
                return self._found(name)
            case _:
                pass
        found = documents.get(path)
        return (404, {"errors": [f"{method} {target}"]}) if found is None else (200, found)

    def _services(self) -> list[dict[str, Any]]:
        found = []
        for server in self.servers():
            place = urlsplit(server.url)
            found.append(
                {
                    "uuid": server.uuid,
                    "service_host": place.hostname,
                    "service_port": place.port,
                    "service_ssl_flag": place.scheme == "https",
                    "service_type": "disk",
                    "read_only": False,
                }
            )
        return found

    def _created(self, wanted: dict[str, Any]) -> dict[str, Any]:
        made = self.collections.create(
            wanted["manifest_text"],
            name=wanted.get("name") or "",
            persisted=not wanted.get("trash_at"),
            replicas=wanted.get("replication_desired") or 0,
        )
        return self._shape(made)

    def _found(self, name: str) -> tuple[int, Any]:
        by_hash = (each for each in self.collections.page() if each.data_hash == name)
        try:
            return 200, self._shape(next(by_hash, None) or self.collections.get(name))
        except NotFoundError as error:
            return 404, {"errors": [str(error)]}

    def _shape(self, collection: Collection) -> dict[str, Any]:
        manifest = Manifest.parse(self.collections.manifest(collection))
        signed = Manifest(tuple(self._signed(stream) for stream in manifest.streams))
        return {
            "uuid": collection.uuid,
            "kind": "arvados#collection",
            "owner_uuid": USER,
            "name": collection.name,
            "portable_data_hash": collection.data_hash,
            "manifest_text": str(signed),
            "replication_desired": collection.replicas or None,
            "storage_classes_desired": ["default"],
            "trash_at": None,
            "properties": {},
            "created_at": collection.created.isoformat(),
            "modified_at": collection.modified.isoformat(),
        }

    def _signed(self, stream: Stream) -> Stream:
        expiry = int(self.clock.now().timestamp()) + self.signer.ttl
        blocks = [
            each if each == EMPTY else self.signer.sign(each, self.token, expiry)
            for each in stream.blocks
        ]
        return Stream(stream.name, tuple(blocks), stream.tokens)


def _form(query: str, body: bytes) -> dict[str, Any]:
    given = parse_qs(query).get("collection", [""])[0] or body.decode()
    document = dict(json.loads(given))
    return dict(document.get("collection", document))


def handler_of(api: Api) -> type[BaseHTTPRequestHandler]:
    """Return the handler of a server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, document = api.answer(
                self.command, self.path, body, f"https://{self.headers['Host']}/"
            )
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - names of the standard library

        def log_message(self, *_: object) -> None:
            pass

    return Handler

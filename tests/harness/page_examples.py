"""An address of each page about the lake of flights, as a reader comes to it."""

from urllib.parse import urlencode

from graveler.lake import Repository
from tests.harness.flights_lake import REPOSITORY

_HOUR = "output/flights/2013/01/01/11:00/"
_REFUSED = "flights 2013-01-01T15:00Z"


def examples(repository: Repository) -> dict[str, str]:
    """Return addresses without a token by the name of a picture."""
    main = repository.branch("main").head.id
    pages: dict[str, tuple[str, dict[str, str]]] = {
        "repository": ("", {}),
        "history": ("history", {}),
        "commit": ("commit", {"at": main}),
        "search": ("search", {"q": "11:00"}),
        "files": ("files", {"at": "main", "path": _HOUR.rpartition("/2013")[0] + "/"}),
        "file": ("file", {"at": "main", "path": f"{_HOUR}part-0.parquet"}),
        "compare": ("compare", {"left": "main", "right": "fix-report"}),
        "runs": ("runs", {}),
        "run": ("run", {"key": _REFUSED}),
        "gates": ("gates", {}),
        "ingestion": ("ingestion", {}),
        "storage": ("storage", {}),
    }
    return {
        "lake": "/",
        **{
            name: f"/{REPOSITORY}/{page}?{urlencode(parameters)}"
            for name, (page, parameters) in pages.items()
        },
    }

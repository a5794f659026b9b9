"""What another program needs to reach a branch of ours: an address and options."""

from typing import Any

from graveler.arguments import PathText, prefix_text
from graveler.errors import InvalidInputError
from graveler.fs.address import PROTOCOL, Address
from graveler.repository import Branch, View
from graveler.runs import Run

__all__ = ["storage_options", "url"]


def url(view: View, path: PathText = "") -> str:
    """Return the address of `path` in a branch, a run, a step or a ref.

    A ref's address is that of its commit: it shows the same tree whatever happens to the branch.

    Raises:
        InvalidInputError: It is what a gate judges, and the gate does not declare
            ``reads="anything"``: an address shows the whole tree.
    """
    if not isinstance(view, View):
        raise InvalidInputError(f"view={view!r}: give a branch, a run, a step or a ref")
    path = prefix_text(path, "path")
    return f"{PROTOCOL}://{Address(view.repository.name, view.expression, path).text}"


def storage_options(view: View) -> dict[str, Any]:
    """Return the options with which the address is reached, as plain data that may travel.

    Those of a run or of a step let their holder write to it, until a newer attempt is opened.
    """
    stores = view.repository
    options: dict[str, Any] = {"lake": stores.location}
    if isinstance(view, Run):
        options["run"] = view.handle.to_json()
    elif isinstance(view, Branch) and view.fence:
        options["fences"] = {f"{stores.name}/{view.name}": view.fence}
    return options

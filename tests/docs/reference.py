"""Prints docs/reference/api.md, which is generated from the docstrings: ``make reference``."""

import inspect
import re
from functools import cached_property

import graveler
import graveler.lake
from graveler.gc.collector import GarbageCollector
from graveler.iam.directory import Directory
from graveler.ingest import Ingestion
from graveler.lake.drivers import Drivers
from graveler.lake.gates import Gates
from graveler.lake.history import History
from graveler.lake.maintenance import Packing
from graveler.lake.places import Links, Protection, SplittingPolicy, Tags
from graveler.lake.upkeep import Upkeep
from graveler.repository.writer import BranchWriter
from graveler.spark.tables import Tables
from graveler.spark.transactions import Transaction

HEAD = """\
# The public names

`graveler` exports what applications use. This page has the first sentence of each docstring. Arguments and errors stand
in the docstrings: `help(graveler.Repository.merge)`.
"""
PLACES = (
    *(
        Tags,
        Protection,
        SplittingPolicy,
        Packing,
        Gates,
        Links,
        GarbageCollector,
        Ingestion,
        Directory,
    ),
)
ON_SPARK = (Tables, Transaction)
PARTS = (BranchWriter, Drivers, History, Upkeep)
"""Classes that only share the methods of a public class among several modules."""
ITEM = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


def own_names(kind):
    """Return the public names that a class adds to its bases, with attributes."""
    parts = [kind, *(base for base in kind.__mro__ if base in PARTS)]
    names = set()
    for part in parts:
        names |= {*vars(part), *vars(part).get("__annotations__", {})}
        if "__init__" in vars(part):
            code = vars(part)["__init__"].__code__
            if code.co_filename.endswith(".py"):
                source = inspect.getsource(vars(part)["__init__"])
                names |= set(re.findall(r"self\.(\w+)(?:: [^=\n]+)? = ", source))
    inherited = {name for base in kind.__mro__ if base not in parts for name in dir(base)}
    return {name for name in names - inherited if not name.startswith("_")}


def public_classes():
    """Return the exported classes, their bases, and the classes of a repository's attributes."""
    exported = [getattr(graveler, name) for name in graveler.__all__]
    exported += [getattr(graveler.lake, name) for name in graveler.lake.__all__]
    exported += PLACES + ON_SPARK
    classes = {base for kind in exported if inspect.isclass(kind) for base in kind.__mro__}
    return {
        kind.__name__: kind
        for kind in classes
        if kind.__module__.startswith("graveler.")
        and kind not in PARTS
        and not issubclass(kind, BaseException)
        and own_names(kind)
    }


def first_sentence(text):
    """Return the first line of a docstring as Markdown, without its full stop."""
    words = " ".join((text or "").strip().partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[a-z)`\"])\. (?=[A-Z`])", words)[0].rstrip(".:")
    return re.sub(r":\w+:`([^`]*)`", r"`\1`", sentence.replace("``", "`")).replace("|", "\\|")


def attributes(kind):
    """Return what the docstrings of a class and of its bases say of its attributes."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        parts = re.split(
            r"^(?:Attributes|Args):\n", inspect.cleandoc(base.__doc__ or ""), flags=re.MULTILINE
        )
        for part in parts[1:]:
            section = re.split(r"^\S", part, maxsplit=1, flags=re.MULTILINE)[0]
            found |= dict(ITEM.findall(section))
    return found


def row(kind, name):
    """Return what a name of a class is."""
    member = inspect.getattr_static(kind, name, None)
    functions = (property, cached_property, classmethod, staticmethod)
    if callable(member) or isinstance(member, functions):
        return first_sentence(inspect.getdoc(member))
    return first_sentence(attributes(kind).get(name) or attribute_text(kind, name))


def attribute_text(kind, name):
    """Return the text below an attribute, as below the members of an enum."""
    found = re.search(
        rf'^    {name}\b.*\n    """(.*?)"""', inspect.getsource(kind), re.MULTILINE | re.DOTALL
    )
    return found[1] if found else ""


def table(rows):
    """Return rows of names in Markdown."""
    lines = [f"| `{name}` | {what} |" for name, what in sorted(rows.items())]
    return "\n".join(["| name | what |", "|---|---|", *lines]) + "\n"


def page():
    """Return the page."""
    names = [name for name in graveler.__all__ if name != "__version__"]
    parts = [
        HEAD,
        "## graveler\n",
        table({name: first_sentence(getattr(graveler, name).__doc__) for name in names}),
    ]
    for name, kind in sorted(public_classes().items()):
        parts += [
            f"## {name}\n",
            f"{first_sentence(kind.__doc__)}.\n",
            table({own: row(kind, own) for own in own_names(kind)}),
        ]
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")

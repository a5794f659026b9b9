"""docs/reference/api.md lists exactly the public names of the public classes."""

import inspect
import re
from pathlib import Path

import graveler
import graveler.lake
from graveler.gc.collector import GarbageCollector
from graveler.ingest import Ingestion
from graveler.lake.maintenance import Packing
from graveler.lake.places import Gates, Links, Protection, SplittingPolicy, Tags
from graveler.spark.tables import Tables
from graveler.spark.transactions import Transaction

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"
PLACES = (Tags, Protection, SplittingPolicy, Packing, Gates, Links, GarbageCollector, Ingestion)
ON_SPARK = (Tables, Transaction)
ROW = re.compile(r"\| `(\w+)` \| (.+) \|")


def own_names(kind):
    """Return the public names that a class adds to its bases, with attributes."""
    names = {*vars(kind), *vars(kind).get("__annotations__", {})}
    if "__init__" in vars(kind):
        code = vars(kind)["__init__"].__code__
        if code.co_filename.endswith(".py"):
            source = inspect.getsource(vars(kind)["__init__"])
            names |= set(re.findall(r"self\.(\w+)(?:: [^=\n]+)? = ", source))
    inherited = {name for base in kind.__mro__[1:] for name in dir(base)}
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
        and not issubclass(kind, BaseException)
        and own_names(kind)
    }


def sections():
    """Return the page's rows by section, as a map from name to line."""
    parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return {part.split()[0]: dict(ROW.findall(part)) for part in parts}


def test_the_page_lists_the_exports_of_graveler():
    assert set(sections()["graveler"]) == set(graveler.__all__) - {"__version__"}


def test_the_page_lists_every_public_name():
    pages = sections()
    wrong = {
        f"{name}.{attribute}: {'missing' if attribute in own else 'unknown'} in {PAGE.name}"
        for name, kind in public_classes().items()
        for own in [own_names(kind)]
        for attribute in own ^ set(pages.get(name, {}))
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_every_section_is_of_a_public_class():
    assert set(sections()) == {"graveler", *public_classes()}

# mypy: ignore-errors
"""Prints docs/reference/airflow.md, which is generated from the docstrings of the package."""

import inspect
import re
import sys
from itertools import chain
from textwrap import dedent

import graveler_airflow

HEAD = """\
# Airflow: all names

What `graveler_airflow` exports, by its docstrings; a test compares this page with the code. DAGs that use each operator
are in [one operator at a time](../guides/airflow-operators.md). *T*: a template field. The arguments of any operator or
sensor (`task_id`, `retries`, `pool`, …) are not listed; all are given by name.
"""
GROUPS = {
    "Operators": r"Operator$",
    "Sensors": r"Sensor$",
    "Triggers": r"Trigger$",
    "Runs, tasks and gates": r"^(graveler_(run|task|bash_task|gate)|step_env|Task(Gate|Step))$",
    "Schedules and assets": r"^(graveler_(asset|partitions)|hourly)$",
    "Connection and messages": r"^Graveler(Hook|Notifier)$",
}
"""The titles of the groups, with the names in them."""

BLANK = "\n\n"
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):\n", re.MULTILINE)
GUIDE = re.compile(r"How to use it: `docs/(\S+)`\.")
ITEM = re.compile(r"^    (\S[^:]*): ", re.MULTILINE)


def plain(text):
    """Return the prose of a docstring as Markdown on one line."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def prose(text):
    """Return the description in a docstring as Markdown, with fenced code."""
    parts, code = [], []
    for paragraph in [*re.split(r"\n\n", text.strip()), ""]:
        if code and (not paragraph or not paragraph.startswith("    ")):
            parts.append(f"```python\n{dedent(BLANK.join(code)).strip()}\n```")
            code = []
        if paragraph.startswith("    "):
            code.append(paragraph)
        elif words := plain(re.sub(r"::$", ":", paragraph.strip())):
            parts.append(words if words != ":" else "")
    return "\n\n".join(part for part in parts if part)


def read(documented):
    """Return the description of an object and the items of its docstring by section."""
    text, *sections = SECTION.split(inspect.cleandoc(documented.__doc__ or ""))
    items = {}
    for name, body in zip(sections[::2], sections[1::2], strict=True):
        _, *pairs = ITEM.split(body)
        items[name] = dict(zip(pairs[::2], map(plain, pairs[1::2]), strict=True))
    return prose(text), items


def signature(documented):
    call = documented.__init__ if inspect.isclass(documented) else documented
    return inspect.signature(call).parameters


def arguments(documented):
    """Yield the name, default and description of each argument, with those of base classes last."""
    kinds = documented.__mro__ if inspect.isclass(documented) else (documented,)
    seen = set()
    for kind in kinds:
        if not kind.__module__.startswith("graveler_airflow"):
            continue
        known = signature(kind)
        for name, what in read(kind)[1].get("Args", {}).items():
            if name == "**kwargs" or name in seen:
                continue
            seen.add(name)
            default = known[name].default if name in known else inspect.Parameter.empty
            shown = getattr(default, "__name__", repr(default))
            yield name, "" if default is inspect.Parameter.empty else f"`{shown}`", what


def table(documented):
    templates = getattr(documented, "template_fields", ())
    rows = [
        f"| `{name}`{' *T*' if name in templates else ''} | {default} | {what} |"
        for name, default, what in arguments(documented)
    ]
    head = ["| argument | default | what |", "|---|---|---|"]
    return "\n".join([*head, *rows]) if rows else ""


def section(name):
    documented = getattr(graveler_airflow, name)
    text, items = read(documented)
    text = GUIDE.sub(r"[How to use it](../\1).", text)
    parts = [f"### {name}", f"`{documented.__module__}.{name}`", text, table(documented)]
    parts += [
        "\n".join(f"- `{item}`: {what}" for item, what in items.get(kind, {}).items())
        for kind in ("Attributes", "Raises")
    ]
    return "\n\n".join(part for part in parts if part)


names = graveler_airflow.__all__
grouped = {
    title: [name for name in names if re.search(chosen, name)] for title, chosen in GROUPS.items()
}
assert sorted(chain(*grouped.values())) == sorted(names), "a name has no group, or two"
pages = [f"## {title}\n\n" + "\n\n".join(map(section, names)) for title, names in grouped.items()]
sys.stdout.write("\n\n".join([HEAD.rstrip(), *pages]) + "\n")

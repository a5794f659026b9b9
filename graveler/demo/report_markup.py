"""HTML and SVG built so that no text can become markup."""

from html import escape

__all__ = ["Markup", "number", "tag"]

_VOID = ("meta",)


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def number(value: float) -> str:
    """Return a coordinate without digits that nobody sees."""
    return f"{value:.1f}".removesuffix(".0")


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """Return an element.

    Args:
        name: Of the element.
        content: Markup goes in as it is, anything else as escaped text.
        attributes: ``class_`` is ``class``, ``stroke_width`` is ``stroke-width``; None is left
            out, and a float is shortened.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is not None:
            text = number(value) if isinstance(value, float) else str(value)
            parts.append(f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    parts.append(">")
    if name in _VOID:
        return Markup("".join(parts))
    parts += [item if isinstance(item, Markup) else escape(str(item)) for item in content]
    parts.append(f"</{name}>")
    return Markup("".join(parts))

"""Results with figures and limits in units, and the page that shows them."""

from tests.bench.measure import Result


def at_least(name: str, value: float, limit: float, unit: str, details: str = "") -> Result:
    """Return a value that is judged by a lower limit."""
    holds = value >= limit
    return Result(name, _shown(value, unit), f"at least {_shown(limit, unit)}", holds, details)


def at_most(name: str, value: float, limit: float, unit: str, details: str = "") -> Result:
    """Return a value that is judged by an upper limit."""
    holds = value <= limit
    return Result(name, _shown(value, unit), f"at most {_shown(limit, unit)}", holds, details)


def _shown(value: float, unit: str) -> str:
    if value >= 1_000 or value == int(value):
        return f"{value:,.0f}{unit}"
    return f"{value:.3g}{unit}"

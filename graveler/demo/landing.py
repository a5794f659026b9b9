"""Where raw hours arrive from outside: a folder an hour, ``landing/2013/01/01/10-00/``."""

import csv
import io
from datetime import datetime
from pathlib import Path
from typing import Final

from graveler.demo.flights import Flights
from graveler.demo.hours import hour_folder

FLIGHTS_FILE: Final = "flights.csv"
WEATHER_FILE: Final = "weather.csv"


def land(flights: Flights, hour: datetime, landing: Path, *, damaged: bool = False) -> Path:
    """Write the raw files of an hour, as the sender would; return their folder."""
    folder = landing / hour_folder(hour)
    folder.mkdir(parents=True, exist_ok=True)
    text = flights.flights.text(hour)
    _write(folder / FLIGHTS_FILE, damage(text) if damaged else text)
    _write(folder / WEATHER_FILE, flights.weather.text(hour))
    return folder


def landed_files(hour: datetime, landing: Path) -> list[Path]:
    """Return the raw files of an hour, none where it has not arrived."""
    return sorted((landing / hour_folder(hour)).glob("*.csv"))


def damage(text: str) -> str:
    """Return a real hour as a broken sender gives it: rows twice, delays as text."""
    header, *rows = csv.reader(io.StringIO(text))
    delay = header.index("dep_delay")
    for row in rows[1::2]:
        row[delay] += " min"
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows, *rows[: len(rows) // 4 + 1]])
    return out.getvalue()


def _write(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)  # whole or not at all

"""The pages about a lake: what each one shows, the templates, and what is drawn.

::

    page = Site(lake).answer("/flights/history", {"at": "main"})
    render(page)  # HTML

A page is a function of a repository and a query, found by the table `ROUTES`. It reads the lake and
never changes it. The server, Airflow and the demo's report show these pages, or use their templates,
style and drawing functions.
"""

from graveler.pages.page import Page, limited
from graveler.pages.query import Query, address
from graveler.pages.rendering import environment, render, style
from graveler.pages.site import ROUTES, Route, Site

__all__ = [
    "ROUTES",
    "Page",
    "Query",
    "Route",
    "Site",
    "address",
    "environment",
    "limited",
    "render",
    "style",
]

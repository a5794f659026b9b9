"""The plugin: graveler's pages in Airflow's own web server.

Every process of Airflow imports this module, even tasks. Only the web server imports the modules
that make the pages, on first use.
"""

from functools import cached_property
from typing import Any

from airflow.sdk.configuration import conf
from airflow.sdk.plugins_manager import AirflowPlugin

__all__ = ["GravelerPlugin"]

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' "
    "stroke='{colour}' stroke-width='2' stroke-linecap='round'%3E%3Ccircle cx='6' cy='5' r='2.2'/%3E"
    "%3Ccircle cx='6' cy='19' r='2.2'/%3E%3Ccircle cx='18' cy='9' r='2.2'/%3E"
    "%3Cpath d='M6 7.2v9.6M18 11.2c0 4.6-12 2-12 5.6'/%3E%3C/svg%3E"
)


class GravelerPlugin(AirflowPlugin):
    """Pages on the runs of a lake: one in the navigation, and one for each DAG run."""

    name = "graveler"

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # built on first use
        """The pages, which require a token as Airflow's own pages do."""
        from graveler_airflow.plugin.pages import build_app

        return [{"app": build_app(), "url_prefix": "/graveler", "name": "graveler"}]

    @cached_property
    def external_views(self) -> list[dict[str, Any]]:  # type: ignore[override]  # likewise
        """The places in Airflow's pages that show them."""
        base = "/" + "/".join(conf.get("api", "base_url", fallback="").split("/")[3:]).strip("/")
        icons = {
            "icon": _ICON.format(colour="%23475569"),
            "icon_dark_mode": _ICON.format(colour="%23cbd5e1"),
        }
        root = f"{base.rstrip('/')}/graveler"
        return [
            {
                "name": "Graveler",
                "href": f"{root}/",
                "destination": "nav",
                "category": "browse",
                "url_route": "graveler",
                **icons,
            },
            {
                "name": "Graveler",
                "href": f"{root}/runs?dag_id={{DAG_ID}}&run_id={{RUN_ID}}",
                "destination": "dag_run",
                "url_route": "graveler-run",
                **icons,
            },
        ]

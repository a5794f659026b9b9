# mypy: ignore-errors
"""Prints the fields of the form for connections."""

import json

from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

(meta,) = [hook for hook in HookMetaService.hook_meta_data() if hook.connection_type == "graveler"]
print(
    json.dumps(
        {
            "fields": {name: field["schema"]["type"] for name, field in meta.extra_fields.items()},
            "hides": [
                name
                for name, field in meta.extra_fields.items()
                if field["schema"].get("format") == "password"
            ],
            "host": meta.standard_fields.host.title,
            "hidden": meta.standard_fields.url_schema.hidden and meta.standard_fields.port.hidden,
        }
    )
)

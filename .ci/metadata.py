"""What an index shows of the package: its addresses, and a README whose links lead to files there."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)


class PackageMetadata(MetadataHookInterface):
    """Fills in the README and the addresses, from ``home`` in pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the dynamic fields ``readme`` and ``urls``."""
        home, tag = self.config["home"].rstrip("/"), f"v{metadata['version']}"
        metadata["urls"] = {
            "Homepage": home,
            "Documentation": f"{home}/blob/{tag}/docs/index.md",
            "Changelog": f"{home}/blob/{tag}/docs/changelog.md",
        }
        readme = _COMMENT.sub("", (Path(self.root) / "README.md").read_text("utf-8"))

        def absolute(link: re.Match[str]) -> str:
            image, text, target, anchor = link.groups()
            kind = "raw" if image else "blob"
            return f"{image}[{text}]({home}/{kind}/{tag}/{target}{anchor or ''})"

        text = _LINK.sub(absolute, readme)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}

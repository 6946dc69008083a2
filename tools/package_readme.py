"""README.md as a package index shows it, without the repository's files beside it: hatchling runs this for every build.

Links and pictures of the repository become addresses of the version's tag, below `Source` in [project.urls]. Without
that setting they become what they say, so that no link is dead. A plugin of hatchling's does the former as well; it
would be one more requirement of every build.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from hatchling.metadata.plugin.interface import MetadataHookInterface

CODE_OR_LINK: Final = re.compile(r"(?ms)^```.*?^```|(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
OF_THE_WEB: Final = ("#", "http://", "https://")


class PackageReadme(MetadataHookInterface):
    """Adds the field `readme` to the description of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        shown = for_the_index(text, metadata.get("urls", {}).get("Source"), metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}


def for_the_index(text: str, source: str | None, version: str) -> str:
    """Markdown whose links into the repository lead to the version's files at `source`, or are gone if that is None."""

    def shown(found: re.Match[str]) -> str:
        target: str | None = found["target"]
        if target is None or target.startswith(OF_THE_WEB):
            return found[0]
        if source is None:
            return f"*{found['text']}*" if found["picture"] else found["text"]
        kind = "raw" if found["picture"] else "blob"
        return f"{found['picture']}[{found['text']}]({source.rstrip('/')}/{kind}/v{version}/{target})"

    return CODE_OR_LINK.sub(shown, text)

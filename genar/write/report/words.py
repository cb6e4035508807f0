"""What a page says in words: where a result comes from, and its model's card."""

import json
import re
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from genar import keys
from genar.write.report.section import Shown

CARD_LETTERS = 100_000  # of a stranger's card
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
SAID = {
    "model": "Model", "model_sha256": "SHA-256 of its weights", "encoder": "Encoder", "version": "genar",
    "date": "Date", "slide_sha256": "SHA-256 of the slide",
}  # fmt: skip
ELSEWHERE = ("warnings", keys.MODEL_CARD, "request", "slide_stamp")


def facts(section: Shown) -> list[tuple[str, str]]:
    """List where a result comes from, as names and values."""
    metadata, provenance = section.metadata, section.provenance
    rows = [("Slide", metadata.get(keys.SLIDE_NAME))]
    if {keys.SLIDE_WIDTH, keys.SLIDE_HEIGHT} <= metadata.keys():
        rows.append(("Size", f"{metadata[keys.SLIDE_WIDTH]:,} x {metadata[keys.SLIDE_HEIGHT]:,} px"))
    if keys.MPP in metadata:
        source = metadata.get(keys.MPP_SOURCE, "not stated")
        rows.append(("Resolution", f"{float(metadata[keys.MPP]):.4g} µm/px, from: {source}"))
    rows += [("Spots", metadata.get(keys.CHEMISTRY)), ("Tissue", metadata.get(keys.TISSUE_SOURCE))]
    rows += [("Measured data", metadata.get(keys.DATA)), ("Patient", _patient(section))]
    rows += [(label, provenance.get(key)) for key, label in SAID.items()]
    rest = {key: value for key, value in provenance.items() if key not in SAID and key not in ELSEWHERE}
    rows += [(key.replace("_", " ").capitalize(), _text(value)) for key, value in rest.items()]
    return [(name, _text(value)) for name, value in rows if value is not None and _text(value)]


def card_html(section: Shown) -> str:
    """Render the model's card, which a stranger may have written: no HTML of its own, no pictures, no scripts' links.

    Returns
    -------
    HTML; empty where the result has no card.
    """
    text = FRONT_MATTER.sub("", str(section.provenance.get(keys.MODEL_CARD, "")).replace("\r\n", "\n"))
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = markdown.parse(text[:CARD_LETTERS])
    for token in tokens:
        _adapt(token)
    return str(markdown.renderer.render(tokens, markdown.options, {}))


def _adapt(token: Token) -> None:
    """Put headings below the page's own; tell links not to say where they come from."""
    if token.type in ("heading_open", "heading_close"):
        token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
    for child in token.children or ():
        if child.type == "link_open":
            child.attrSet("rel", "noopener noreferrer")


def _patient(section: Shown) -> str | None:
    found = section.adata.obs.get(keys.PATIENT)
    return None if found is None else ", ".join(sorted(set(found.dropna().astype(str))))


def _text(value: Any) -> str:
    """Write a value of ``uns`` on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_text(inner)}" for key, inner in value.items())
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

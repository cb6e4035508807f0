"""A result in, a page out."""

import base64
import hashlib
import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import jinja2
import numpy as np
from anndata import AnnData
from markupsafe import Markup
from matplotlib import colormaps

from genar import __version__, keys
from genar.ood import unlike
from genar.read.table import read_table
from genar.write.atomic import atomic, check_writable
from genar.write.report.genes import PAGE_BYTES, genes_of
from genar.write.report.pack import pack_picture
from genar.write.report.section import Shown, shown
from genar.write.report.spots import spots_of, views_of
from genar.write.report.thumbnail import thumbnail
from genar.write.report.words import card_html, facts

logger = logging.getLogger("genar")

PARTS = Path(__file__).parent / "parts"
SCRIPTS = ("data.js", "scale.js", "slide.js", "picker.js", "panel.js", "page.js")  # in this order
PALETTES = ("viridis", "cividis", "magma", "inferno", "gray")  # lightness rises steadily: safe for the colour-blind
QUALITY = 82  # of JPEG
RESERVE = 2_000  # bytes of a page that depend on its genes, but for the genes


def report(
    adata: AnnData | str | Path,
    output: str | Path,
    *,
    library_id: str | None = None,
    genes: Sequence[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write one section as a self-contained HTML page: the slide, its spots, each gene, and where it comes from.

    Parameters
    ----------
    adata
        A result of :func:`genar.predict` or its ``.h5ad``, or a measured section that :func:`genar.read.section` read.
    output
        The file to write, ``.html``.
    library_id
        The section to show, where there are several.
    genes
        The genes to show; by default as many as the page's 10 MB hold, those with the clearest pattern first.
    overwrite
        Replace a file that exists.

    Returns
    -------
    The path of the page.

    Raises
    ------
    DataError
        If the file cannot be read, has no such section, or lacks the positions, the image or the counts.
    ConfigError
        If a gene is not there, or the genes do not fit.
    OutputError
        If the file exists and ``overwrite`` is not set, or cannot be written.
    """
    what = "adata" if isinstance(adata, AnnData) else adata
    table = adata if isinstance(adata, AnnData) else read_table(Path(adata))
    return write_page(table, Path(output), what, library_id=library_id, genes=genes, overwrite=overwrite)


def write_page(
    adata: AnnData, output: Path, what: object, *, library_id: str | None, genes: Sequence[str] | None, overwrite: bool
) -> Path:
    """Do what :func:`report` does, of an AnnData that errors call ``what``."""
    check_writable(output, overwrite=overwrite)
    html = page(shown(adata, library_id, what), genes)
    with atomic(output, overwrite=overwrite) as (temporary,):
        temporary.write_text(html, encoding="utf-8", errors="replace")
    return output


def page(section: Shown, genes: Sequence[str] | None = None) -> str:
    """Return the page of a section as HTML."""
    data: dict[str, object] = {
        "spots": spots_of(section), "views": views_of(section), "n": section.adata.n_obs,
        "diameter": section.diameter, "pitch": section.pitch, "um_per_px": section.um_per_px, "palettes": _palettes(),
    }  # fmt: skip
    image, said, card = pack_picture(section.image, quality=QUALITY, optimize=True), facts(section), card_html(section)
    fixed = render("page.html.j2", title="", section=section, data=data, genes=None, image=image, facts=said, card=card,
                   about={}, scripts=SCRIPTS)  # fmt: skip
    about = summary(section)
    room = PAGE_BYTES - len(fixed.encode(errors="replace")) - len(repr(about)) - RESERVE
    chosen = genes_of(section, genes, room)
    if chosen.left_out:
        message = "%s: the page shows %d of %d genes, those with the clearest pattern; --genes chooses others"
        logger.warning(message, section.title, len(chosen.genes), section.adata.n_vars)
    data |= {"genes": chosen.genes, "layers": chosen.layers, "first": chosen.first}
    return render("page.html.j2", title=section.title, section=section, data=data, genes=chosen, image=image,
                  facts=said, card=card, about=about, scripts=SCRIPTS)  # fmt: skip


def summary(section: Shown) -> dict[str, object]:
    """Return what an index says of a page."""
    obs = section.adata.obs
    far = unlike(obs[keys.OOD].to_numpy(float)) if keys.OOD in obs else None
    return {
        "title": section.title,
        "spots": section.adata.n_obs,
        "genes": section.adata.n_vars,
        "model": section.model,
        "unlike": None if far is None else round(float(far), 4),
        "warnings": section.warnings,
        "thumbnail": thumbnail(section),
    }


def render(template: str, *, scripts: Sequence[str] = (), **values: object) -> str:
    """Fill a template; the page may run its own script alone, and load nothing."""
    script = "\n".join((PARTS / name).read_text(encoding="utf-8") for name in scripts)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    style = (PARTS / "page.css").read_text(encoding="utf-8")
    return _templates().get_template(template).render(
        values, version=__version__, script=Markup(script), style=Markup(style), keys=keys,
        policy=f"{policy}; base-uri 'none'; form-action 'none'",
    )  # fmt: skip


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PARTS), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.policies["json.dumps_kwargs"] = {"sort_keys": False, "allow_nan": False}
    return made


@cache
def _palettes() -> dict[str, str]:
    """Return 256 colours of each palette, RGB in base64."""
    steps = np.linspace(0, 1, 256)
    return {
        name: base64.b64encode(np.rint(colormaps[name](steps)[:, :3] * 255).astype(np.uint8).tobytes()).decode()
        for name in PALETTES
    }

"""Names that the pages do not document: other packages' types, which an offline build cannot look up, and insides."""

import builtins
import pkgutil

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

PYTHON = "https://docs.python.org/3/library/"
NUMPY = "https://numpy.org/doc/stable/reference/"
PAGES = {
    "AnnData": "https://anndata.readthedocs.io/en/stable/generated/anndata.AnnData.html",
    "Axes": "https://matplotlib.org/stable/api/axes_api.html",
    "Figure": "https://matplotlib.org/stable/api/figure_api.html",
    "DataFrame": "https://pandas.pydata.org/docs/reference/api/pandas.DataFrame.html",
    "Index": "https://pandas.pydata.org/docs/reference/api/pandas.Index.html",
    "Series": "https://pandas.pydata.org/docs/reference/api/pandas.Series.html",
    "BaseModel": "https://docs.pydantic.dev/latest/api/base_model/",
    "Path": f"{PYTHON}pathlib.html",
}


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement) -> nodes.Node | None:
    """Link what is not documented here; a name that is nowhere stays a warning, hence an error."""
    if node.get("refdomain") != "py":
        return None
    target = str(node.get("reftarget", ""))
    module, _, name = target.rpartition(".")
    if not module and (own := _documented(env, name)):
        return make_refnode(app.builder, env.docname, *own, text)  # a name that is imported for its type alone
    page = PAGES.get(name)
    if page is None and (module in ("numpy", "numpy.typing", "numpy._typing", "np") or target.startswith("numpy.")):
        page = f"{NUMPY}typing.html" if "typing" in module else f"{NUMPY}generated/numpy.{name}.html"
    if page is None and module.partition(".")[0] == "torch":
        page = f"https://docs.pytorch.org/docs/stable/generated/{target}.html"
    if page is None and module.partition(".")[0] in ("typing", "collections", "pathlib"):
        page = f"{PYTHON}{module}.html"
    if page is None and not module and hasattr(builtins, name):
        page = f"{PYTHON}stdtypes.html"
    if page is None:
        return text if _exists(target, str(node.get("py:module") or "")) else None
    return nodes.reference("", "", text, refuri=page, internal=False)


def _documented(env: BuildEnvironment, name: str) -> tuple[str, str] | None:
    """Return the page and anchor of the one object of genar that has this name."""
    found = [entry for full, entry in env.domains.python_domain.objects.items() if full.endswith(f".{name}")]
    return (found[0].docname, found[0].node_id) if len(found) == 1 else None


def _exists(target: str, module: str) -> bool:
    """Tell whether something inside genar has this name, which is then shown without a link."""
    for name in (target, f"{module}.{target}"):
        if name.startswith("genar."):
            try:
                pkgutil.resolve_name(name)
            except (AttributeError, ImportError):
                continue
            return True
    return False


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen for what Sphinx cannot find."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}

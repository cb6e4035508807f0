"""How the documentation is built: ``scripts/docs.sh``; offline, every warning an error."""

import os
import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.highlighting import lexers

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_ext")]

import genar  # noqa: E402

lexers["csv"] = TextLexer()  # Pygments has none

project = "genar"
author = "The genar developers"
release = version = genar.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "generated",
    "outside",
    "prose",
]
exclude_patterns = ["_build"]
html_theme = "sphinx_book_theme"
html_title = "genar"
html_theme_options = {"show_toc_level": 2, "show_navbar_depth": 1}

nitpicky = True
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "model_config"}  # pydantic's
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "separated"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
copybutton_exclude = ".linenos, .gp, .go"

# Notebooks run on the real data, and are shown without their results where these are not at hand.
shared = Path(os.environ.get("GENAR_SHARED", DOCS.parents[1] / "shared")).resolve()
has_data = (shared / "data").is_dir()
if not has_data and os.environ.get("CI"):
    msg = f"the real data are not at {shared} (set GENAR_SHARED)"
    raise FileNotFoundError(msg)
os.environ["GENAR_SHARED"] = str(shared)
nb_execution_mode = "cache" if has_data else "off"
nb_execution_in_temp = True
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
os.environ["GENAR_CACHE"] = str(DOCS / "_build" / "cache")  # of features, and of the notebooks' sections
sources = [str(DOCS.parent), str(DOCS / "notebooks"), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(sources)  # of the notebooks' processes

"""Configuration of the documentation: ``sphinx-build -W --keep-going docs docs/_build/html``."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import qsdp

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "qsdp"
author = "The qsdp developers"
copyright = "2026, the qsdp developers"  # noqa: A001
version = release = qsdp.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx-mathjax-offline",  # formulas need nothing from elsewhere
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "notebook_gallery",
    "playground",
    "name_links",
    "reference_pages",
    "repository_links",
]

exclude_patterns = ["_build", "_ext", "_templates"]
templates_path = ["_templates"]
nitpicky = True
# Names in single backquotes that are no names of the package are emphasised, not links: see `default_role`.
nitpick_ignore_regex = [("py:obj", r"(?!qsdp\.).*")]
# Names that exist but have no page: tables, and what is not public.
nitpick_ignore = [
    ("py:obj", f"qsdp.{name}")
    for name in (
        "losses.LOSSES",
        "pricing.shifts",
        "relaxation.incumbent.Incumbent",
    )
]

# -- docstrings ----------------------------------------------------------------------------------------

autodoc_typehints = "none"  # numpydoc's sections name the types, with shapes
autodoc_member_order = "bysource"
autoclass_content = "class"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
default_role = "autolink"  # `name` links where there is such a name, and is emphasised elsewhere

# -- pages and notebooks -------------------------------------------------------------------------------

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are executed by the tests; their outputs are committed

# -- pictures: scripts of the gallery and examples in docstrings are run by every build ------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "subsection_order": [f"../examples/{part}" for part in ("training", "data", "proofs", "devices", "paper")],
    "filename_pattern": r"\.py$",  # all of them
    "doc_module": ("qsdp",),
    "reference_url": {"qsdp": None},
    "backreferences_dir": "gallery/uses",
    "capture_repr": ("_repr_html_",),
    "notebook_extensions": [],  # the scripts are enough to download
    "download_all_examples": False,
    "min_reported_time": math.inf,  # pages have no times
    "write_computation_times": False,
    "show_signature": False,
}
plot_include_source = True
plot_formats = [("png", 100)]
plot_html_show_formats = False
plot_html_show_source_link = False

# -- look ----------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "qsdp"
html_static_path = ["_static"]
html_css_files = ["qsdp.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
_PLAIN = (
    "index",
    "quickstart",
    "playground/index",
    "theory",
    "troubleshooting",
    "glossary",
    "alternatives",
    "errata",
    "measurements",
    "results",
    "changelog",
)
html_sidebars = {page: [] for page in _PLAIN}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def skip_inherited(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what classes inherit from other packages: scikit-learn's documentation has it."""
    # Of a function itself, of the function behind a property, of the class of a built-in method.
    holders = (obj, getattr(obj, "fget", None), getattr(obj, "func", None), getattr(obj, "__objclass__", None))
    modules = [getattr(holder, "__module__", None) for holder in holders]
    origin = next((module for module in modules if isinstance(module, str)), "qsdp")
    return None if origin.startswith("qsdp") else True


def setup(app: Any) -> None:
    """Register with Sphinx."""
    app.connect("autodoc-skip-member", skip_inherited)

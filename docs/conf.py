"""Sphinx configuration: an API reference made from the docstrings of the public names of glace."""

from pathlib import Path

import glace

project = "glace"
author = "the glace developers"
release = glace.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
templates_path = ["_templates"]
exclude_patterns = ["_build"]
html_theme = "alabaster"

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the Parameters sections state the types
numpydoc_show_class_members = False  # the class template lists the members

GROUPS = {
    "estimators": "Estimators",
    "fitted": "Fitted models",
    "training": "Training",
    "config": "Configuration",
    "gaussian": "Embeddings",
    "queries": "Answers",
    "graph": "Graphs",
    "io": "Reading and writing graphs",
    "datasets": "Datasets",
    "rng": "Random streams",
    "errors": "Errors",
}
"""Heading for the public names that live in each unit of the package, in the order of the page."""


def api_page() -> str:
    """Return the API page: one autosummary table for each unit that has public names."""
    units = {name: home.removeprefix("glace.").partition(":")[0].split(".")[0] for name, home in glace._HOME.items()}
    headings = GROUPS | {unit: unit for unit in units.values() if unit not in GROUPS}
    text = [title("API reference", "="), ".. currentmodule:: glace\n"]
    for unit, heading in headings.items():
        names = sorted(name for name in glace.__all__ if units[name] == unit)
        if names:
            lines = "".join(f"   {name}\n" for name in names)
            text += [title(heading, "-"), f".. autosummary::\n   :toctree: .\n   :nosignatures:\n\n{lines}"]
    return "\n".join(text)


def title(text: str, underline: str) -> str:
    """Return a heading in reStructuredText."""
    return f"{text}\n{underline * len(text)}\n"


generated = Path(__file__).parent / "generated"
generated.mkdir(exist_ok=True)
(generated / "api.rst").write_text(api_page(), encoding="utf-8")

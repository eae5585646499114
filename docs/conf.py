"""Settings of Sphinx for the site, which `python docs/build.py` builds."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import desc_signature, pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.transforms import SphinxTransform

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import generate_api  # noqa: E402
import generate_ops  # noqa: E402

import nbmod  # noqa: E402

project = "nbmod"
author = "the authors of nbmod"
release = version = nbmod.__version__
root_doc = "docs/index"
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"nbmod {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
python_use_unqualified_type_names = True
add_module_names = False
highlight_language = "none"


class NamesAsLinks(SphinxTransform):
    """`mx.nd.zeros` in a text leads to its description."""

    default_priority = 450

    def apply(self) -> None:
        for node in list(self.document.findall(nodes.literal)):
            name = re.fullmatch(r"((?:mx|nbmod)(?:\.\w+)+)(\(.*\))?", node.astext())
            if name and not isinstance(node.parent, nodes.reference):
                link = pending_xref("", refdomain="py", reftype="obj", refwarn=False,
                                    reftarget=generate_api.full_name(name[1]))
                node.replace_self(link)
                link += node


def anchors(app: Sphinx, doctree: nodes.document) -> None:
    """Descriptions, and anchors in rows of tables, are places that links may lead to."""
    slugs = app.env.metadata[app.env.docname].setdefault("myst_slugs", {})
    found = [match[1] for node in doctree.findall(nodes.raw)
             if (match := re.fullmatch(r'<a id="(\w+)">', node.astext()))]
    found += [name for node in doctree.findall(desc_signature) for name in node["ids"]]
    slugs.update({name: (0, name, name) for name in found})


def operators(app: Sphinx, doctree: nodes.document) -> None:
    """Functions of operators are in the search, by all their names."""
    folder, _, page = app.env.docname.rpartition("/")
    if folder != "docs/ops":
        return
    python = app.env.domains["py"]
    assert isinstance(python, PythonDomain)
    slugs = app.env.metadata[app.env.docname]["myst_slugs"]
    for name, anchor in generate_ops.anchors(page).items():
        for path in (f"mx.nd.{name}", f"mx.sym.{name}"):
            if path not in generate_api.full_names():
                python.note_object(path, "function", slugs[anchor][1], location=doctree)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what the site adds to Sphinx."""
    generate_api.full_names()  # once: processes that read pages are forked
    app.add_transform(NamesAsLinks)
    app.connect("doctree-read", anchors)
    app.connect("doctree-read", operators)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Sphinx configuration."""

from importlib.metadata import version as _version

from docutils import nodes

project = "hush"
author = "The hush developers"
copyright = "2026, the hush developers"
release = version = _version("hush")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "tutorials/flights"]
html_theme = "furo"
html_title = "hush"
html_static_path = ["_static"]
html_css_files = ["hush.css"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "undoc-members": False}


def _plain_mathematics(app, what, name, obj, options, lines):  # noqa: ARG001 - Sphinx calls it so
    """Let docstrings write |x| and indented formulas plainly: escape the bars, make the formulas literal blocks."""
    out: list[str] = []
    literal = False
    for line in lines:
        indented = line.startswith("    ")
        starts = indented and not literal and (not out or not out[-1].strip())
        after_directive = any(prior.lstrip().startswith("..") for prior in out[-4:])
        if starts and not after_directive and not (out and _previous(out).endswith("::")):
            out += ["::", ""]
        literal = indented or (literal and not line.strip())
        out.append(line if literal or line.lstrip().startswith(">>>") else line.replace("|", r"\|"))
    lines[:] = out


def _previous(lines):
    """Return the last line with something on it."""
    return next((line for line in reversed(lines) if line.strip()), "")


def _no_empty_last_lines(app, doctree):  # noqa: ARG001 - Sphinx calls it so
    """Take away the empty line that ends an example, which is there for those who run it."""
    for block in doctree.findall(nodes.literal_block):
        block.rawsource = block.astext().rstrip("\n")  # what differs from it is not highlighted
        block[:] = [nodes.Text(block.rawsource)]


def setup(app):
    app.connect("doctree-read", _no_empty_last_lines)
    app.connect("autodoc-process-docstring", _plain_mathematics, priority=900)

"""A chart is a Vega-Lite specification: plain data that notebooks draw and files keep.

Charts of answers bring their picture along (`hush.report.pictures`), so that SVG needs nothing else. The pictures of
other charts, and PNG, are drawn by the optional ``vl-convert-python``.

>>> Chart({"mark": "line"}).spec["mark"]
'line'
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from hush.core.errors import HushError, InvalidValueError
from hush.core.format import script_json, visible
from hush.core.storage import writing

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
CONFIG: dict[str, Any] = {
    "background": "white",
    "font": "Helvetica, Arial, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "gridColor": "#e6e6e6",
        "domainColor": "#888888",
        "tickColor": "#888888",
        "labelColor": "#333333",
        "titleColor": "#333333",
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
    # flush labels move towards their neighbours and run into them
    "axisQuantitative": {"labelFlush": False, "labelOverlap": "greedy", "labelSeparation": 8},
    "axisTemporal": {"labelFlush": False, "labelOverlap": "parity", "labelSeparation": 4},
    "title": {"anchor": "start", "fontSize": 14, "fontWeight": "bold", "color": "#222222", "subtitleColor": "#555555"},
    "legend": {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelLimit": 320},
    "range": {"category": ["#1f5fa8", "#d1552b", "#2f8f5b", "#8a4fa3", "#b58a00", "#4d4d4d"]},
}
"""One look for every chart of hush."""
EMBEDDED: dict[str, Any] = {
    "embedOptions": {
        "renderer": "svg",
        "actions": {"export": True, "source": False, "compiled": False, "editor": False},
    }
}
"""What a page or a notebook may offer beside a chart. Not the source, which vega-embed writes into a page as it is, and
not the editor, which would send the answer to another site."""


class MissingChartsError(HushError):
    """Pictures were asked for, but the program that draws them is not installed."""

    code = "missing-charts"


class Chart:
    """A Vega-Lite specification that shows itself in notebooks and saves itself to files.

    ``svg`` is the same chart drawn already, for whoever does not draw Vega-Lite: exported notebooks, code hosts, files.
    """

    __slots__ = ("spec", "svg")
    spec: dict[str, Any]
    svg: str

    def __init__(self, spec: dict[str, Any], *, svg: str = "") -> None:
        self.spec = {"$schema": SCHEMA, "config": CONFIG, "usermeta": EMBEDDED, **spec}
        self.svg = svg

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Return what notebooks need to show the chart, wherever they are read."""
        bundle = {"application/vnd.vegalite.v5+json": self.spec, "text/plain": repr(self)}
        try:
            svg = self.svg or _converter().vegalite_to_svg(self.spec)
        except MissingChartsError:
            return bundle
        return bundle | images(svg)

    def to_altair(self) -> Any:
        """Return the chart as one of Altair's, to change it there: ``chart.to_altair().properties(width=600)``."""
        try:
            import altair as alt
        except ImportError:
            raise MissingChartsError("This needs Altair: pip install altair.") from None
        spec = {name: part for name, part in self.spec.items() if name != "$schema"}  # Altair writes its own
        return alt.Chart.from_dict(spec)

    def save(self, path: str | Path) -> Path:
        """Write the chart as .svg, .png, .html or .json, by the path's ending."""
        target = Path(path)
        with writing(target):
            match target.suffix.lower():
                case ".json":
                    target.write_text(json.dumps(self.spec, indent=1, ensure_ascii=False), encoding="utf-8")
                case ".html":
                    target.write_text(self._html(), encoding="utf-8")
                case ".svg":
                    target.write_text(self.svg or _converter().vegalite_to_svg(self.spec), encoding="utf-8")
                case ".png" if self.svg:
                    target.write_bytes(_converter().svg_to_png(self.svg, scale=2))
                case ".png":
                    target.write_bytes(_converter().vegalite_to_png(self.spec, scale=2))
                case _:
                    allowed = "a file name ending in .svg, .png, .html or .json"
                    raise InvalidValueError("path", got=str(path), allowed=allowed)
        return target

    def _html(self) -> str:
        """Return a page that needs no network where the drawing program is installed, else one that loads Vega.

        Data is not trusted: the specification stands in the page as JSON in which nothing can end its element.
        """
        if self.svg:
            return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Chart</title>{self.svg}</html>'
        try:
            scripts = f"<script>{_converter().javascript_bundle()}</script>"
        except MissingChartsError:
            scripts = "".join(
                f'<script src="https://cdn.jsdelivr.net/npm/{name}"></script>'
                for name in ("vega@5", "vega-lite@5", "vega-embed@6")
            )
        return (
            f'<!doctype html><meta charset="utf-8"><title>Chart</title>{scripts}<div id="chart"></div>'
            f'<script type="application/json" id="spec">{script_json(self.spec)}</script>'
            "<script>vegaEmbed('#chart', JSON.parse(document.getElementById('spec').textContent))</script>"
        )

    def __repr__(self) -> str:
        title = self.spec.get("title", "")
        text = title.get("text", "") if isinstance(title, dict) else title
        return f"<Chart{': ' + visible(str(text)) if text else ''}>"


def images(svg: str) -> dict[str, Any]:
    """Return a drawn chart as notebooks keep it: SVG, and PNG where the program that draws it is installed."""
    try:
        png = _converter().svg_to_png(svg, scale=2)
    except MissingChartsError:
        return {"image/svg+xml": svg}
    return {"image/svg+xml": svg, "image/png": base64.b64encode(png).decode()}


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise MissingChartsError(
            "Drawing a picture needs vl-convert-python: pip install 'hush[charts]'. A .json file needs nothing."
        ) from None
    return vl_convert

"""Charts: a title and an SVG picture, which shows itself in notebooks and saves itself to files.

Curves and bars are drawn here with the standard library alone; answers, by `hush.report.pictures`. PNG is made of the
SVG by the optional ``resvg-py``.

>>> square = ChartLine(name="square", points=[(0, 0), (1, 1), (2, 4)])
>>> line_chart([square], ChartAxis.between("x", 0, 2), ChartAxis.around("y", 0, 4), title="A curve")
<Chart: A curve>
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from hush.core.errors import HushError, InvalidValueError
from hush.core.format import visible
from hush.core.storage import writing
from hush.core.svg import ChartAxis, ChartBar, Sheet

_COLOURS = 5
_GREY = 5


class MissingChartsError(HushError):
    """A PNG picture was asked for, but the package that makes it is not installed, or has no font to write with."""

    code = "missing-charts"


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture with its title."""

    title: str
    svg: str
    bare: str = ""
    """The same without colours, for a page that has ``chart.css`` and lets no other style in; of models' curves."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the picture as notebooks keep it: SVG, and PNG for readers that show no SVG where it can be made."""
        bundle = {"text/plain": repr(self), "image/svg+xml": self.svg}
        try:
            return bundle | {"image/png": base64.b64encode(_png(self.svg)).decode()}
        except MissingChartsError:
            return bundle

    def save(self, path: str | Path) -> Path:
        """Write the chart as .svg, .png or .html, by the path's ending."""
        target = Path(path)
        match target.suffix.lower():
            case ".svg":
                content = self.svg.encode()
            case ".png":
                content = _png(self.svg)
            case ".html":
                title = escape(visible(self.title))
                page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>{self.svg}</html>'
                content = page.encode()
            case _:
                raise InvalidValueError("path", got=str(path), allowed="a file name ending in .svg, .png or .html")
        with writing(target):
            target.write_bytes(content)
        return target

    def __repr__(self) -> str:
        return f"<Chart: {visible(self.title)}>"


def _png(svg: str) -> bytes:
    try:
        import resvg_py
    except ImportError:
        raise MissingChartsError("PNG needs resvg-py: pip install 'hush[charts]'. SVG needs nothing.") from None
    letter = Sheet(width=20, height=20)
    blank = resvg_py.svg_to_bytes(letter.file())
    letter.text(2, 15, "a")
    if resvg_py.svg_to_bytes(letter.file()) == blank:
        # the converter leaves out words for which it finds no font, and says nothing
        raise MissingChartsError("PNG needs a font, such as Liberation Sans or DejaVu Sans. SVG needs none.")
    return resvg_py.svg_to_bytes(svg, zoom=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    """A line of a chart; one to compare with is dashed."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    dot: tuple[float, float] | None = None


def line_chart(
    curves: Sequence[ChartLine], x: ChartAxis, y: ChartAxis, *, title: str, subtitle: str = "", width: float = 640
) -> Chart:
    """Return curves over one axis, each in its colour, with a legend if there are several; 320 pixels high."""
    sheet = Sheet(width=width, title=title, subtitle=subtitle, details="; ".join(curve.name for curve in curves))
    top = sheet.heading()
    colours = [_GREY if curve.dashed else index % _COLOURS for index, curve in enumerate(curves)]
    if len(curves) > 1:
        entries = [(curve.name, f"d{colour}") for curve, colour in zip(curves, colours, strict=True)]
        top = sheet.legend(top, "", entries)
    bottom = top + 320
    upwards, along = sheet.ordinate(y, top, bottom), sheet.abscissa(x, y.room(), bottom)
    for curve, colour in zip(curves, colours, strict=True):
        places = [(along(across), upwards(up)) for across, up in curve.points]
        sheet.path(f"line s{colour}{' dashed' if curve.dashed else ''}", places, tooltip=curve.name)
        if curve.dot is not None:
            sheet.add("circle", f"d{colour}", curve.name, cx=along(curve.dot[0]), cy=upwards(curve.dot[1]), r=4)
    sheet.height = bottom + 48
    return Chart(title, sheet.file(), sheet.page())


def bar_chart(
    labels: Sequence[str],
    bars: Sequence[ChartBar],
    axis: ChartAxis,
    *,
    title: str,
    subtitle: str = "",
    legend: Sequence[tuple[str, str]] = (),
) -> Chart:
    """Return bars from left to right, a row for each label; the legend gives texts with the classes of their bars."""
    sheet = Sheet(width=560, title=title, subtitle=subtitle, details="; ".join(bar.tooltip for bar in bars[:20]))
    top = sheet.heading()
    if legend:
        top = sheet.legend(top, "", legend)
    sheet.height = sheet.lying_bars(labels, bars, axis, top) if bars else sheet.nothing(top)
    return Chart(title, sheet.file(), sheet.page())

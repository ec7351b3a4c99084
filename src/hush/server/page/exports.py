"""An answer as a Python script and as a notebook: both ask again under the same request id, which costs nothing."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from hush.core.format import figure
from hush.curator.answer import Answer


def script(answer: Answer, release: dict[str, Any], address: str) -> str:
    """Return a program that shows the answer again."""
    return (
        f'"""{_words(release)}"""\n\n' + "\n\n".join([_connect(address), _ask(answer, release), "print(answer)"]) + "\n"
    )


def notebook(answer: Answer, release: dict[str, Any], address: str) -> str:
    """Return a notebook that shows the answer again, with its chart."""
    cells = [
        ("markdown", f"# Answer {release['number']}\n\n{_words(release)}"),
        ("code", _connect(address)),
        ("code", f"{_ask(answer, release)}\nanswer"),
        ("code", "answer.chart()"),
    ]
    made: list[dict[str, Any]] = [
        {
            "cell_type": kind,
            "id": f"cell-{index}",
            "metadata": {},
            "source": source.splitlines(keepends=True),
            **({"execution_count": None, "outputs": []} if kind == "code" else {}),
        }
        for index, (kind, source) in enumerate(cells)
    ]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _words(release: dict[str, Any]) -> str:
    return f"Receipt {release['number']} of {release['when'][:10]}. To run this costs nothing: the answer is kept."


def _connect(address: str) -> str:
    return (
        "import os\n\nimport hush\n\n# a token from the page Account; it is never written into a file\n"
        f'curator = hush.connect({json.dumps(address)}, token=os.environ["HUSH_TOKEN"])'
    )


def _ask(answer: Answer, release: dict[str, Any]) -> str:
    lines = release["question"].splitlines(keepends=True) or [""]
    question = "\n    ".join(json.dumps(line, ensure_ascii=False) for line in lines)
    price = answer.price.epsilon
    epsilon = text if Fraction(text := figure(price, exact=True)) == price else str(price)
    return (
        f"answer = curator.ask(\n    {question},\n    epsilon={json.dumps(epsilon)},\n"
        f"    data={json.dumps(release['data'])},\n    request={json.dumps(release['request'])},\n)"
    )

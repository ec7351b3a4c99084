"""``hush audit``: is something as private as it says, ours or anybody's."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from runpy import run_path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from typer import Argument, Option

from hush.audit import audit as look_for_violations
from hush.cli.options import JsonOption
from hush.cli.output import plain_table, tell, working
from hush.core import InvalidValueError
from hush.core.format import figure

_OUTPUT = 2**20
_VIOLATION = 5
_STOPPED = 130


def audit(
    target: Annotated[str | None, Argument(metavar="[MODULE:FUNCTION]", help="The function.")] = None,
    epsilon: Annotated[str | None, Option(metavar="ε", help="The ε that is claimed.")] = None,
    delta: Annotated[str, Option(metavar="δ", help="The δ that is claimed.")] = "0",
    neighbours: Annotated[str, Option(help="add-remove or replace.")] = "add-remove",
    rows: Annotated[Path | None, Option(metavar="FILE", help="JSON: a list of pairs [rows, rows].")] = None,
    bounds: Annotated[str, Option(metavar="LOWER,UPPER", help="The range of made-up numbers.")] = "0,1",
    values: Annotated[str | None, Option(metavar="A,B,…", help="Made-up rows are these words.")] = None,
    command: Annotated[str | None, Option(metavar="PROGRAM", help="A program; {rows} is its CSV file.")] = None,
    replayed: Annotated[str | None, Option("--replay", metavar="FILE[:NAME]", help="Replay its release(rows).")] = None,
    once: Annotated[str | None, Option("--one-run", metavar="FILE[:NAME]", help="Run its train(coins) once.")] = None,
    canaries: Annotated[int, Option(help="How many canaries one run has.")] = 1000,
    independent: Annotated[bool, Option("--independent", help="Canaries share no noise: see docs.")] = False,
    catalogue: Annotated[bool, Option("--catalogue", help="Audit the catalogue of broken mechanisms.")] = False,
    seconds: Annotated[str, Option(help="How long to look, for each audit.")] = "60",
    limit: Annotated[str, Option(metavar="SECONDS", help="How long one run may take.")] = "10",
    level: Annotated[str, Option(help="How often an honest function may be accused.")] = "0.05",
    timing: Annotated[bool, Option("--timing", help="Test the time of a run, and nothing else.")] = False,
    chart: Annotated[Path | None, Option(metavar="FILE", help="Save the trade-off curve (.svg, .html …).")] = None,
    save_pair: Annotated[Path | None, Option(metavar="FILE", help="Save the best pair, for --rows.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Look for a proof that something is less private than it claims.

    TARGET is a Python function of rows, as module:function. Rows are lists of numbers (--bounds) or of words
    (--values), made up to be hostile, or pairs of neighbours that you give (--rows).

    ```sh
    hush audit mylib:noisy_mean --epsilon 1 --bounds 0,100
    hush audit mylib:noisy_mean --epsilon 1 --delta 1e-6 --neighbours replace --rows pairs.json
    hush audit --command './release {rows}' --epsilon 1  # any program: a CSV file in, anything out; no shell runs it
    hush audit                                           # hush itself, on made-up rows
    hush audit --replay pipeline.py --epsilon 1          # its function release(rows), with recorded noise
    hush audit --one-run train.py --canaries 1000 --epsilon 4  # its function train(coins), which returns scores
    hush audit --catalogue                               # what audits find among mechanisms known to be broken
    ```

    An audit proves violations, never privacy. One that finds nothing says which true ε it would have found. Ctrl-C
    prints the report so far.

    Exit status: 5 a violation was found, 130 stopped by hand.
    """
    modes = {"TARGET": target, "--command": command, "--replay": replayed, "--one-run": once, "--catalogue": catalogue}
    given = [name for name, value in modes.items() if value]
    if len(given) > 1:
        raise InvalidValueError("TARGET", got=" and ".join(given), allowed=f"one of {', '.join(modes)}")
    if catalogue:
        from hush.audit.catalogue import CATALOGUE

        cases = {case.name: case.audit for case in CATALOGUE}
        notes = {case.name: f"{case.fault} ({case.source})" if case.source else case.fault for case in CATALOGUE}
        _many(cases, notes, {"seconds": seconds}, as_json=as_json)
        return 0
    if not given:
        from hush.audit.ourselves import ourselves

        parts = ourselves()
        # All parts together are accused with the probability that one report has, and share the time.
        options = {"seconds": float(seconds) / len(parts), "level": 0.05 / len(parts)}
        accused = _many({name: part.audit for name, part in parts.items()}, {}, options, as_json=as_json)
        return _VIOLATION if accused else 0
    if epsilon is None:
        raise InvalidValueError("--epsilon", got=None, allowed="the ε that is claimed")
    if once is not None:
        from hush.audit.canaries import one_run

        with working("running once", quiet=as_json):
            single = one_run(
                _from_file(once, "train"), canaries=canaries, epsilon=epsilon, delta=delta, level=level,
                independent=independent,
            )  # fmt: skip
        return _tell(single, as_json=as_json)
    from hush.audit.neighbours import read_pairs

    pairs = None if rows is None else read_pairs(rows)
    claim: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "neighbours": neighbours}
    claim |= {"schema": _schema(bounds, values), "pairs": pairs, "name": replayed or command or target}
    if replayed is not None:
        from hush.audit.grey_box import replay

        with working("replaying", quiet=as_json):
            found = replay(_from_file(replayed, "release"), **claim)
        return _tell(found, as_json=as_json)
    with working("auditing", quiet=as_json) as told, TemporaryDirectory(prefix="hush-audit-") as folder:
        if command is not None:
            function = program(_words(command), Path(folder, "rows.csv"), limit=float(limit))
        else:
            function = _function(target or "")
        report = look_for_violations(
            function, **claim, seconds=seconds, limit=limit, level=level, timing=timing, progress=told
        )
    if save_pair is not None:
        save_pair.write_text(report.pair_json(), "utf-8")
    if chart is not None:
        report.chart().save(chart)
    status = _tell(report, as_json=as_json)
    return _STOPPED if report.interrupted and not status else status


def _tell(report: Any, *, as_json: bool) -> int:
    tell(report.to_json(), str(report), as_json=as_json)
    return _VIOLATION if report.violation else 0


def _many(audits: dict[str, Any], notes: dict[str, str], options: dict[str, Any], *, as_json: bool) -> int:
    """Make many audits, print a line for each, and return how many found a violation."""
    table = plain_table("audit of", "violation", "seconds", "what was found", "what is wrong with it" if notes else "")
    for column in table.columns:
        column.overflow = "fold"
    reports: list[dict[str, Any]] = []
    with working("auditing", quiet=as_json) as told:
        for index, (name, make) in enumerate(audits.items()):
            told(name, index / len(audits))
            begun, note = time.monotonic(), notes.get(name, "")
            report = make(**options)
            spent, found = figure(time.monotonic() - begun, digits=2), "yes" if report.violation else "no"
            table.add_row(name, found, spent, report.told(), note)
            reports.append({**report.to_json(), "name": name, "note": note})
            if getattr(report, "interrupted", False):
                break
    tell(reports, table, as_json=as_json)
    return sum(bool(report["violation"]) for report in reports)


def _from_file(place: str, name: str) -> Any:
    """Return a function of a Python file, FILE or FILE:NAME."""
    path, _, given = place.partition(":")
    if not Path(path).is_file():
        raise InvalidValueError("FILE", got=path, allowed="a Python file")
    sys.path.insert(0, str(Path(path).resolve().parent))
    function = run_path(path).get(given or name)
    if not callable(function):
        raise InvalidValueError("FILE", got=place, allowed=f"a file with a function {given or name}")
    return function


def _function(target: str) -> Any:
    """Import module:function, also from the working directory."""
    if Path(target.partition(":")[0]).is_file():  # the import of x.py would run x, and find no py in it
        raise InvalidValueError("TARGET", got=target, allowed="module:function, without .py")
    sys.path.insert(0, str(Path.cwd()))
    try:
        function = resolve_name(target)
    except (ImportError, AttributeError, ValueError) as error:
        allowed = "a function that can be imported, such as mylib:noisy_mean"
        raise InvalidValueError("TARGET", got=target, allowed=allowed, hint=f"{error}.") from None
    if not callable(function):
        raise InvalidValueError("TARGET", got=target, allowed="a function of rows")
    return function


def _words(command: str) -> list[str]:
    with suppress(ValueError):
        words = shlex.split(command)
        if any("{rows}" in word for word in words):
            return words
    allowed = "a program in a shell's words, with {rows} where its CSV file belongs"
    raise InvalidValueError("--command", got=command, allowed=allowed)


def program(arguments: list[str], path: Path, *, limit: float = 10.0) -> Any:
    """Return a function that runs a program on rows: ``{rows}`` becomes the path of a CSV file. No shell is involved.

    Its outcome is the exit status and what it prints: JSON, or numbers and words.
    """

    def run(rows: Any) -> Any:
        listed = [row if isinstance(row, dict) else {"value": row} for row in rows]
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(listed[0]) if listed else ["value"])
            writer.writeheader()
            writer.writerows(listed)
        filled, quiet = [part.replace("{rows}", str(path)) for part in arguments], subprocess.DEVNULL
        try:
            done = subprocess.run(filled, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            return {"status": "no answer in time", "printed": []}
        text = done.stdout[:_OUTPUT].decode("utf-8", "replace")
        try:
            printed = json.loads(text)
        except ValueError:
            printed = [_word(word) for word in text.replace(",", " ").split()]
        return {"status": done.returncode, "printed": printed}

    return run


def _word(word: str) -> float | str:
    with suppress(ValueError):
        return float(word)
    return word


def _schema(bounds: str, values: str | None) -> Any:
    if values is not None:
        return values.split(",")
    try:
        lower, upper = (float(end) if "." in end or "e" in end else int(end) for end in bounds.split(","))
    except ValueError:
        raise InvalidValueError("--bounds", got=bounds, allowed="two numbers, such as 0,100") from None
    return lower, upper

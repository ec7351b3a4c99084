"""How hard a page is to read: the paragraphs of a Markdown text, and their Flesch-Kincaid grade.

The grade is the number of years at school after which a text reads easily:

    0.39 · words / sentences + 11.8 · syllables / words − 15.59

J. P. Kincaid, R. P. Fishburne, R. L. Rogers, B. S. Chissom: *Derivation of new readability formulas for Navy enlisted
personnel*, Research Branch Report 8-75, 1975. It is fitted to prose, so code blocks, tables, headings, images and
formulas are left out. A code span counts as one word of two syllables: nobody spells it out. An item of a list is a
paragraph of its own. Only a full stop, a question mark, an exclamation mark and the end of a paragraph end a sentence.
"""

from __future__ import annotations

import re
from itertools import groupby

_FENCE = re.compile(r"^ *(```|~~~|:::).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r" *(?:[-*+]|\d+\.) +")
_LEFT_OUT = re.compile(r"\s*(?:\||#|!\[|\$\$|<|>>>)")
_CODE = re.compile(r"(`+)(?:.|\n)+?\1")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_FORMULA = re.compile(r"\$[^$\n]+\$")
_WORD = re.compile(r"[A-Za-zÀ-ÿ][A-Za-zÀ-ÿ'’-]*|[^\W_][\w.,^%]*")
_SENTENCE = re.compile(r"[.!?](?:[)\"'*]+)?(?=\s|$)")
_CODE_WORD = "token"


def paragraphs(markdown: str) -> list[str]:
    """Return the paragraphs of a page, without code, tables, headings and pictures."""
    prose = _FENCE.sub("\n\n", markdown)
    blocks: list[list[str]] = [[]]
    for line in prose.splitlines():
        if not line.strip() or _LEFT_OUT.match(line):
            blocks.append([])
        elif _ITEM.match(line):
            blocks.append([_ITEM.sub("", line, count=1)])
        else:
            blocks[-1].append(line.strip())
    return [_plain(" ".join(lines)) for lines in blocks if lines]


def words(text: str) -> list[str]:
    """Return the words of a paragraph; a number is one word."""
    return _WORD.findall(text)


def grade(markdown: str) -> float:
    """Return the Flesch-Kincaid grade of a page, 0 if it has no prose."""
    texts = paragraphs(markdown)
    spoken = [word for text in texts for word in words(text)]
    if not spoken:
        return 0.0
    sentences = sum(_sentences(text) for text in texts)
    syllables = sum(_syllables(word) for word in spoken)
    return 0.39 * len(spoken) / sentences + 11.8 * syllables / len(spoken) - 15.59


def _plain(text: str) -> str:
    """Replace code and formulas by one word each, and links by their text."""
    text = _CODE.sub(_CODE_WORD, text)
    text = _FORMULA.sub(_CODE_WORD, text)
    return _LINK.sub(r"\1", text).replace("**", "").strip()


def _sentences(text: str) -> int:
    """Count the sentences of a paragraph; what follows the last full stop is one, too."""
    ends = [match.end() for match in _SENTENCE.finditer(text)]
    rest = text[ends[-1] :] if ends else text
    return len(ends) + bool(words(rest))


def _syllables(word: str) -> int:
    """Count the syllables of an English word: its groups of vowels, without a silent e at the end."""
    letters = word.lower()
    if not letters[0].isalpha():
        return 1
    groups = [key for key, _ in groupby(letters, key=lambda letter: letter in "aeiouyäöüéè") if key]
    hiatus = re.findall(r"[^cstg]i[aou]|[^qg]ua|[^q]ue[ln]", letters)  # va-ri-ance, ac-tu-al, flu-ent
    silent = re.search(r"[^aeiouyl]e$|[^aeiouydt]ed$|[^aeiouycsxzgh]es$", letters)
    return max(1, len(groups) + len(hiatus) - bool(silent))

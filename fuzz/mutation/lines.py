"""Mutations of text whose lines are words: assembly, IR, plans, profiles, networks as text."""

import random
import re
from collections.abc import Sequence

from fuzz.mutation import Mutate, mutator

_WORD = re.compile(r"[\w.+@%$*-]+|\s+|.", re.DOTALL)
_SEVERAL = 4  # lines that one mutation moves


def line_mutator(words: str, form: str = "utf-8") -> Mutate:
    """Return a mutator of lines. words: of the format, with blanks between them. form: encoding."""
    known = words.split()

    def change(source: random.Random, data: bytes) -> bytes:
        return changed_lines(source, data.decode(form, "surrogateescape"), known).encode(form, "surrogateescape")

    return mutator(change)


def changed_lines(source: random.Random, text: str, words: Sequence[str]) -> str:
    """Return the text with lines removed, doubled or moved, or with a word of one exchanged for another."""
    lines = text.split("\n")
    at, action = source.randrange(len(lines)), source.randrange(8)
    if action == 0:
        del lines[at : at + source.randint(1, _SEVERAL)]
    elif action == 1:
        where = source.randrange(len(lines) + 1)
        lines[where:where] = lines[at : at + source.randint(1, _SEVERAL)]
    else:
        lines[at] = _changed_words(source, lines[at], source.choice(lines), words)
    return "\n".join(lines)


def _changed_words(source: random.Random, line: str, other: str, words: Sequence[str]) -> str:
    from bench.fuzz_mutations import NUMBERS

    parts, others = _WORD.findall(line) or [""], _WORD.findall(other) or [""]
    at, action = source.randrange(len(parts)), source.randrange(5)
    numbers = [n for n, part in enumerate(parts) if part.lstrip("-").isdecimal()]
    if numbers and action == 0:
        at = source.choice(numbers)
        value = int(parts[at][:20].replace("-", "0")) if parts[at].isascii() else 0
        parts[at] = str(source.choice((*NUMBERS, value + 1, value - 1, value * 2)))
    elif action == 1:
        del parts[at]
    elif action == 2:
        parts.insert(at, source.choice([*words, *others]))
    elif action == 3:
        parts[at] = source.choice(words or others)
    else:
        parts[at] = source.choice(others)
    return "".join(parts)

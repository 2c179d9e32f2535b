"""Mutations of trees of tables, lists and plain values, as TOML and JSON have them."""

import copy
import datetime
import json
import random
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any

from fuzz.mutation import Mutate, mutator

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_MOST_DEPTH = 60  # of a tree, within Python's stack


def toml_mutator(words: str) -> Mutate:
    """Return a mutator of TOML. words: keys and texts of the format, with blanks between; the corpus may lack some."""
    known = words.split()

    def change(source: random.Random, data: bytes) -> bytes:
        tree = tomllib.loads(data.decode())
        changed = changed_tree(source, tree, known)
        if not isinstance(changed, dict):  # in place of an empty file's table
            raise ValueError("a TOML file is a table")
        return toml_text(changed).encode("utf-8", "replace")

    return mutator(change)


def json_mutator(words: str, lines: bool = False) -> Mutate:
    """Return a mutator of JSON. words: as of toml_mutator. lines: True for a document on each line."""
    known = words.split()

    def change(source: random.Random, data: bytes) -> bytes:
        if not lines:
            return _json(changed_tree(source, json.loads(data), known))
        documents = data.split(b"\n")
        at = source.randrange(len(documents))
        documents[at] = _json(changed_tree(source, json.loads(documents[at]), known))
        if source.random() < 0.1:
            documents.insert(source.randrange(len(documents)), documents[at])
        return b"\n".join(documents)

    return mutator(change)


def _json(tree: Any) -> bytes:
    return json.dumps(tree, indent=1 if isinstance(tree, dict) else None).encode()


def changed_tree(source: random.Random, tree: Any, words: Sequence[str]) -> Any:
    """Return a copy of a tree with one value, key or item changed, added, doubled or taken away."""
    made = copy.deepcopy(tree)
    places = list(_places(made, 0))
    if not places:
        return _value(source, made, [], words)
    holder, key = source.choice(places)
    if source.random() < 0.15:
        below = holder[key]
        if isinstance(below, dict):
            below[source.choice(words or ("x",))] = _value(source, None, places, words)
            return made
        if isinstance(below, list):
            below.insert(source.randrange(len(below) + 1), _value(source, below[0] if below else None, places, words))
            return made
    action = source.randrange(8)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, list):
        holder[key:key] = [copy.deepcopy(holder[key])] * source.randint(1, 3)
    elif action == 1:
        holder[_name(source, places, words)] = copy.deepcopy(holder[key])
    elif action == 2 and isinstance(holder, dict):
        holder[_name(source, places, words)] = holder.pop(key)
    elif action == 2:
        holder.reverse()
    else:
        holder[key] = _value(source, holder[key], places, words)
    return made


def _places(tree: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    if depth > _MOST_DEPTH:
        return
    keys = tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key], depth + 1)


def _name(source: random.Random, places: Sequence[tuple[Any, Any]], words: Sequence[str]) -> str:
    keys = [key for _, key in places if isinstance(key, str)]
    return str(source.choice([*keys, *words, "x", ""]))


def _value(source: random.Random, value: Any, places: Sequence[tuple[Any, Any]], words: Sequence[str]) -> Any:
    """Return another value for a place: mostly of the same type, or one that stands elsewhere in the tree."""
    from bench.fuzz_mutations import NUMBERS, REALS, TEXTS

    if source.random() < 0.25 and places:
        holder, key = source.choice(places)
        return copy.deepcopy(holder[key])
    if source.random() < 0.15:
        return source.choice((True, False, 0, -1, 1.5, "", "x", [], {}, [[]], {"x": 1}))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return source.choice((*NUMBERS, value + 1, value - 1, value * 2, -value, 1 << 70))
    if isinstance(value, float):
        return source.choice((*REALS, value * 2, -value, value / 1000))
    if isinstance(value, list | dict) and value:
        inner = source.choice(list(value.values()) if isinstance(value, dict) else value)
        return source.choice((inner, [inner], [value], {"x": value}))
    return _text(source, value if isinstance(value, str) else "", words, TEXTS)


def _text(source: random.Random, text: str, words: Sequence[str], others: Sequence[str]) -> str:
    """Return another text: one of the words, or the text with words or signs taken away, doubled or exchanged."""
    action = source.randrange(6)
    if action < 2 or not text:
        return source.choice([*words, *others])
    parts = text.split(" ")
    at = source.randrange(len(parts))
    if action == 2:
        parts[at] = source.choice([*words, *others, *parts])
    elif action == 3:
        parts.insert(at, source.choice([*words, *parts]))
    elif action == 4:
        del parts[at]
    else:
        sign = source.randrange(len(text) + 1)
        return text[:sign] + source.choice("\"'\\*[]{}()<>:;,.=/-_@#$%!0z\n\t\0\u00e9 ") + text[sign + 1 :]
    return " ".join(parts)


def toml_text(tree: dict[str, Any]) -> str:
    """Return a tree as TOML: plain values, then [tables], then [[lists of tables]], everything below these inline."""
    plain, tables = [], []
    for key, value in tree.items():
        if isinstance(value, dict):
            tables += ["", f"[{_key(key)}]", *(f"{_key(name)} = {_inline(below)}" for name, below in value.items())]
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            for item in value:
                tables += ["", f"[[{_key(key)}]]", *(f"{_key(name)} = {_inline(b)}" for name, b in item.items())]
        else:
            plain.append(f"{_key(key)} = {_inline(value)}")
    return "\n".join([*plain, *tables]) + "\n"


def _key(key: str) -> str:
    return key if key and set(key) <= _BARE else _inline(key)


def _inline(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_inline(below)}" for key, below in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")

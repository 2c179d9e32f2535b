"""Removes the definitions of some functions from gcc's assembly, so that another object can define them.

The input is the output of gcc -S for ELF. References to a removed function keep its name:

    dot:  ...  .size dot, .-dot          ->  removed, or dot.TAG.plain where debug information needs the code
    .globl dot                           ->  removed: the assembler takes dot for undefined
    call leaf (leaf is static)           ->  .set leaf, leaf.TAG in front, a hidden symbol of the other object

Source: GNU assembler manual, "Pseudo Ops"; `.set` to an undefined symbol makes relocations name that symbol.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mavcg.passes.asm.isa.source import quote_symbol

_NAME = r"[^\s,:;#\"()+*%$@-][^\s,:;#\"()+*@-]*"
_LABEL = re.compile(rf"({_NAME}):")
_DIRECTIVE = re.compile(rf"\s*\.(\w+)[ \t]+({_NAME})[ \t]*(?:,[ \t]*(.*))?$")
_SECTION = re.compile(r"\s*\.(text|data|bss|section|previous|subsection|pushsection|popsection)\b")
_TYPE_OR_SIZE = re.compile(r"\s*\.(type|size)\s+([^\s,]+)\s*,(.*)")
_GROUP = re.compile(rf",[ \t]*({_NAME}),[ \t]*comdat\b")
_WORDS = re.compile(r"[\w.$\x80-\U0010ffff]+")
_BINDING = frozenset({"globl", "global", "weak"})
_VISIBILITY = frozenset({"hidden", "protected", "internal"})
_LOCAL_ALIAS = re.compile(r"\.localalias(\.\d+)?$")  # gcc's own alias of a function that cannot be interposed


class CannotSeparate(Exception):
    """Raised if a definition cannot be removed from a file's assembly; the message is the reason."""


@dataclass(frozen=True)
class Symbol:
    """A symbol that the assembly defines.

    kind: "function", "object" or "". is_global: visible to other objects. bytes: its size; None if it is an expression.
    """

    kind: str
    is_global: bool
    bytes: int | None


def defined_symbols(text: str) -> dict[str, Symbol]:
    """Return the symbols that the assembly defines, without temporary labels (.L)."""
    kinds: dict[str, str] = {}
    shared: set[str] = set()
    local: set[str] = set()
    sizes: dict[str, int] = {}
    defined: set[str] = set()
    for line in text.split("\n"):
        if label := _LABEL.match(line):
            defined.add(label[1])
        elif parts := _DIRECTIVE.match(line):
            word, name, value = parts[1], parts[2], parts[3] or ""
            if word == "type":
                kinds[name] = {"function": "function", "object": "object"}.get(value.strip("@% \t"), "")
            elif word in _BINDING:
                shared.add(name)
            elif word == "local":
                local.add(name)
            elif word == "set":
                defined.add(name)
            elif word == "size" and value.isdigit():
                sizes[name] = int(value)
            elif word in ("comm", "lcomm"):
                defined.add(name)
                size = value.partition(",")[0].strip()
                sizes |= {name: int(size)} if size.isdigit() else {}
                kinds.setdefault(name, "object")
                if word == "comm":
                    shared.add(name)
    return {
        name: Symbol(kinds.get(name, ""), name in shared - local, sizes.get(name))
        for name in sorted(defined)
        if not name.startswith(".L")
    }


def words_in_function(text: str, function: str) -> frozenset[str]:
    """Return every word in a function's code, which includes the symbols it uses; empty if it has no code here."""
    index = _index_of(text)
    lines, region = index.lines, index.region(function)
    return frozenset(_WORDS.findall("\n".join(lines[region.start : region.stop]))) if region else frozenset()


def remove_functions(text: str, removed: Mapping[str, str], ours: Collection[str], tag: str) -> str:
    """Return the assembly without the functions in `removed`, which another object defines.

    removed: function -> symbol of the other object that references go to: the function's own name if it is global, a
    hidden symbol if it is static. gcc's local aliases of a global function refer to `NAME.TAG`. ours: aliases of
    removed functions that the other object defines too. tag: TAG of new symbol names.
    Raises: CannotSeparate, if .symver or the like names a function, or its comdat group defines other symbols too.
    """
    index = _index_of(text)
    lines = index.lines
    groups = _taken_groups(lines, removed, ours)
    keep_code = {name for name in removed if _has_other_alias(index, name, ours)}
    regions = {name: region for name in removed if name not in keep_code and (region := index.region(name))}
    uses = _uses(lines, {label for region in regions.values() for label in _labels(lines, region)})
    dropped: set[int] = set()
    inserted: dict[int, str] = {}
    for name, region in regions.items():
        if (last := _removable(lines, region, name, uses)) is not None:
            dropped |= {*region, *index.named.get(("size", f"{name}.cold"), ()), *index.named.get(("type", name), ())}
            inserted[region.stop - 1] = last
    output = [f"\t.hidden\t{symbol}\n\t.set\t{name}, {symbol}" for name, symbol in removed.items() if symbol != name]
    for number, line in enumerate(lines):
        if number in dropped:
            output += [inserted[number]] if inserted.get(number) else []
        else:
            output += _rewrite_line(line, removed, ours, tag, groups)
    return "\n".join(output)


def _rewrite_line(
    line: str, removed: Mapping[str, str], ours: Collection[str], tag: str, groups: Mapping[str, str]
) -> list[str]:
    """Return the lines that replace a line outside of the removed code. groups: comdat group -> its new name."""
    if (label := _LABEL.match(line)) and label[1] in removed:
        return [f"{label[1]}.{tag}.plain:{line[label.end() :]}"]
    if groups and (group := _GROUP.search(line)) and _SECTION.match(line):
        return [line[: group.start(1)] + groups.get(group[1], group[1]) + line[group.end(1) :]]
    parts = _DIRECTIVE.match(line)
    if not parts:
        return [line]
    word, name, value = parts[1], parts[2], (parts[3] or "").strip()
    if word == "set" and value in removed and name not in removed:
        if name in ours:
            return []
        if _LOCAL_ALIAS.search(name):
            return [f"\t.hidden\t{value}.{tag}", f"\t.set\t{name}, {value}.{tag}"]
        return [f"\t.set\t{name}, {value}.{tag}.plain"]
    if name in ours:
        return [] if word in _BINDING | _VISIBILITY | {"type", "size"} else [line]
    if name not in removed:
        return [line]
    if word in _VISIBILITY:
        return [line]
    if word in _BINDING or word in ("set", "local"):
        return []
    if word in ("type", "size"):
        return [f"\t.{word}\t{name}.{tag}.plain, {value.replace(f'.-{name}', f'.-{name}.{tag}.plain')}"]
    if word in ("symver", "weakref", "comm", "lcomm", "equ", "equiv"):
        raise CannotSeparate(f"{name} is named by .{word}")
    return [line]  # data that holds its address


def _removable(lines: Sequence[str], region: range, name: str, uses: Mapping[str, Sequence[int]]) -> str | None:
    """Return the section directive that replaces a function's lines ("" for none); None if the lines must stay.

    uses: the lines that have a word, for all labels of the region.
    """
    last = ""
    for line in (lines[i] for i in region):
        if _LABEL.match(line):
            continue
        if section := _SECTION.match(line):
            if section[1] not in ("text", "data", "bss", "section"):
                return None
            last = line
        elif (parts := _DIRECTIVE.match(line)) and parts[1] in _BINDING | {"type", "set", "comm", "local"}:
            if parts[2] not in (name, f"{name}.cold"):
                return None
    own = {label for label in _labels(lines, region) if label != name and not label.isdigit()}
    size = f"\t.size\t{name}.cold, .-{name}.cold"
    return None if any(i not in region and lines[i] != size for label in own for i in uses.get(label, ())) else last


def _labels(lines: Sequence[str], region: range) -> Iterator[str]:
    return (label[1] for i in region if (label := _LABEL.match(lines[i])))


def _uses(lines: Sequence[str], words: Collection[str]) -> dict[str, list[int]]:
    """Return word -> the lines that have it."""
    uses: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        for word in _WORDS.findall(line):
            if word in words:
                uses.setdefault(word, []).append(number)
    return uses


def _has_other_alias(index: "_AssemblyIndex", name: str, ours: Collection[str]) -> bool:
    """True if an alias that stays in this object names the function's code."""
    return any(alias not in ours and not _LOCAL_ALIAS.search(alias) for alias in index.aliases.get(name, ()))


@dataclass(frozen=True)
class _AssemblyIndex:
    """The lines at which a text of assembly has labels, sizes and aliases, read once for all functions.

    labels: what lines begin with, up to a colon -> the first such line. named: word of a directive and the name after
    it -> lines, for .type and .size. ends: name -> lines that give it the size from its label on. aliases: value of
    .set -> its aliases.
    """

    lines: Sequence[str]
    labels: Mapping[str, int]
    named: Mapping[tuple[str, str], Sequence[int]]
    ends: Mapping[str, Sequence[int]]
    aliases: Mapping[str, Sequence[str]]

    def region(self, name: str) -> range | None:
        """Return the lines of a function, from its label to its .size, or None."""
        start = self.labels.get(name)
        if start is None:
            return None
        end = next((i for i in self.ends.get(name, ()) if i >= start), None)
        return None if end is None else range(start, end + 1)


@lru_cache(maxsize=1)
def _index_of(text: str) -> _AssemblyIndex:
    lines = text.split("\n")
    labels: dict[str, int] = {}
    named: dict[tuple[str, str], list[int]] = {}
    ends: dict[str, list[int]] = {}
    aliases: dict[str, list[str]] = {}
    for number, line in enumerate(lines):
        before, colon, _ = line.partition(":")
        if colon:
            labels.setdefault(before, number)
        if about := _TYPE_OR_SIZE.match(line):
            named.setdefault((about[1], about[2]), []).append(number)
            if about[1] == "size" and about[3].strip() == f".-{about[2]}":
                ends.setdefault(about[2], []).append(number)
        elif (parts := _DIRECTIVE.match(line)) and parts[1] == "set":
            aliases.setdefault((parts[3] or "").strip(), []).append(parts[2])
    return _AssemblyIndex(lines, labels, named, ends, aliases)


def _taken_groups(lines: Sequence[str], removed: Mapping[str, str], ours: Collection[str]) -> dict[str, str]:
    """Map comdat groups of the removed functions to new names: the other object defines the groups of the old names.

    Raises: CannotSeparate where such a group defines anything else.
    """
    members: dict[str, list[str]] = {}
    group = ""
    aliases: list[tuple[str, str]] = []
    binding: set[str] = set()
    for line in lines:
        if _SECTION.match(line):
            match = _GROUP.search(line)
            group = match[1] if match else ""
        elif label := _LABEL.match(line):
            if group:
                members.setdefault(group, []).append(label[1])
        elif (parts := _DIRECTIVE.match(line)) and parts[1] == "set":
            aliases.append((parts[2], (parts[3] or "").strip()))
        elif parts and parts[1] in _BINDING:
            binding.add(parts[2])
    renamed = {}
    for name, inside in members.items():
        if set(inside) & set(removed):
            symbols = [*inside, *(alias for alias, target in aliases if target in inside)]
            staying = next((s for s in symbols if s in binding and s not in removed and s not in ours), None)
            if staying:
                raise CannotSeparate(f"{staying} is in one comdat group with it")
            renamed[name] = f"{name}.plain"
    return renamed


def add_aliases(text: str, aliases: Mapping[str, str]) -> str:
    """Return the assembly with hidden aliases of symbols that it defines. aliases: new name -> symbol."""
    added = []
    for new, symbol in sorted(aliases.items()):
        name = quote_symbol(new)  # the name of a core may have a hyphen
        added.append(f"\t.globl\t{name}\n\t.hidden\t{name}\n\t.set\t{name}, {symbol}")
    return "\n".join([text, *added, ""])

"""Rewrite the text of one definition: rename symbols in it, change its linkage, give it CPU attributes.

Text is used because llvmlite's objects cannot copy a function within a module, remove an attribute, add one with a
value, change a comdat, or list the symbols that a function refers to outside of its instructions.

An optimised version's module is reused for another core, if the optimisation did not depend on the core.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from mavcg.passes.ir.attributes import without_cpu
from mavcg.passes.ir.grammar import (
    NAME,
    SYMBOL_OR_TEXT,
    attributes_start,
    find_closing,
    own_symbol,
    quote,
    symbols_in,
    unquote,
)
from mavcg.passes.ir.module_objects import Use
from mavcg.passes.ir.module_text import LINKAGES, LOCAL_LINKAGE, Entity, ModuleText, parse_module

# Words before a function's name that make a constant of it: what is then called is that constant.
_MADE_CONSTANT = ("dso_local_equivalent ", "no_cfi ")
_COMDAT = re.compile(r' comdat(?:\(\$(?:"[^"]*"|[^)]*)\))?(?= |$)')
# LangRef order: ... [fn Attrs] [section] [comdat] [align] [gc] [prefix] [prologue] [personality] metadata {
_AFTER_COMDAT = re.compile(r' (?:align \d+|gc "|prefix |prologue |personality |!\w+ !\d+|\{$)')


def rename_symbols(text: str, new_name: Callable[[str, bool], str]) -> str:
    """Rename the @symbols of a text; new_name(symbol, is_callee) returns the new name for each use."""

    def swap(match: re.Match[str]) -> str:
        if not match["name"] or match[0][0] != "@":
            return match[0]
        old = unquote(match["name"])
        is_callee = text[match.end() : match.end() + 1] == "(" and not text.endswith(_MADE_CONSTANT, 0, match.start())
        new = new_name(old, is_callee)
        return match[0] if new == old else "@" + quote(new)

    return SYMBOL_OR_TEXT.sub(swap, text)


def uses_in_header(definition: Entity) -> tuple[Use, ...]:
    """Return the symbols that a definition's first line refers to: a personality, prefix data."""
    return tuple(Use(name, False) for name in dict.fromkeys(symbols_in(definition.header)) if name != definition.name)


def uses_in_body(definition: Entity) -> tuple[Use, ...]:
    """Return the symbols that a body refers to: in operands, bundles, debug records and metadata.

    They are found as rename_symbols finds them, so that none of them is without a new name; addresses of the
    function's own labels are left out.
    """
    uses: dict[Use, None] = {}

    def add(name: str, is_callee: bool) -> str:
        uses.setdefault(Use(name, is_callee))
        return name

    rename_symbols(_with_blocks_of(definition, ""), add)
    return tuple(uses)


def _with_blocks_of(definition: Entity, symbol: str) -> str:
    """Return a body whose addresses of own labels refer to the labels of another symbol; of none, for ""."""
    owner = f"@{quote(symbol)}" if symbol else ""
    return definition.body.replace(f"blockaddress(@{quote(definition.name)},", f"blockaddress({owner},")


def copy_definition(definition: Entity, symbol: str, names: Mapping[Use, str]) -> Entity:
    """Return a copy of a definition under another symbol; its block addresses refer to the copy's labels.

    names: use of a symbol -> its new name.
    """
    body = _with_blocks_of(definition, symbol)

    def in_header(name: str, is_callee: bool) -> str:
        return symbol if name == definition.name and is_callee else names[Use(name, False)]

    def in_body(name: str, is_callee: bool) -> str:
        return symbol if name == symbol else names[Use(name, is_callee)]

    return Entity(symbol, "define", rename_symbols(definition.header, in_header) + "\n" + rename_symbols(body, in_body))


def plain_definition(definition: Entity, new_linkage: str, comdat: str = "") -> Entity:
    """Return a definition with another linkage, without section and partition, and with the given comdat or none."""
    first, _, body = definition.text.partition("\n")
    first = re.sub(r' (?:section|partition) "[^"]*"', "", _COMDAT.sub("", first))
    plain = with_linkage(Entity(definition.name, "define", first + "\n" + body), new_linkage)
    if not comdat:
        return plain
    first, _, body = plain.text.partition("\n")
    position = _AFTER_COMDAT.search(first, _after_parameters(first))
    assert position, first
    return replace(plain, text=f"{first[: position.start()]} {comdat}{first[position.start() :]}\n{body}")


def _after_parameters(header: str) -> int:
    return find_closing(header, own_symbol(header).end())


def with_cpu(module: ModuleText, cpu_text: Mapping[str, str]) -> ModuleText:
    """Add CPU attributes to every definition; cpu_text: symbol -> attribute text."""
    entities = dict(module.entities)
    for name, entity in entities.items():
        if entity.kind == "define":
            cut = attributes_start(entity.header)
            entities[name] = replace(entity, text=f"{entity.text[:cut]} {cpu_text[name]}{entity.text[cut:]}")
    return replace(module, entities=entities)


def with_linkage(entity: Entity, new: str) -> Entity:
    """Return the global with another linkage; new: "" for external, or words such as "hidden", "weak_odr hidden".

    An old visibility keyword is removed if the new linkage has one or is local. dso_local is removed if the new linkage
    has a visibility keyword, which implies it.
    """
    first = entity.header
    start = first.index(" = ") + 3 if first.startswith("@") else first.index(" ") + 1
    head, tail = first[:start], first[start:]
    word, _, after = tail.partition(" ")
    if word in LINKAGES:
        tail = after
    parts = new.split()
    if any(p in ("hidden", "protected", "default", *LOCAL_LINKAGE) for p in parts):
        tail = re.sub(r"^((?:dso_local |dso_preemptable )?)(?:hidden |protected |default )", r"\1", tail)
    preempt = re.match(r"dso_local |dso_preemptable ", tail)
    if preempt and len(parts) and parts[-1] in ("hidden", "protected", "default"):
        # LangRef order: linkage, preemption, visibility; and hidden implies dso_local.
        tail = tail[preempt.end() :]
    text = head + " ".join([*parts, tail])
    return replace(entity, text=text + entity.text[len(first) :])


_COMDATS = re.compile(rf"\$({NAME})")


def relabel_module(text: str, old_label: str, new_label: str) -> ModuleText:
    """Return the module with every symbol `name.old_label` renamed to `name.new_label`, and without CPU attributes.

    define hidden float @f.generic(...) #0     ->     define hidden float @f.cortex-a55(...) #0
    """
    suffix = "." + old_label

    def new_name(name: str, _: bool = False) -> str:
        return f"{name.removesuffix(suffix)}.{new_label}" if name.endswith(suffix) else name

    def new_comdat(match: re.Match[str]) -> str:
        return "$" + quote(new_name(unquote(match[1])))

    module = parse_module(rename_symbols(text, new_name))
    comdats = {new_name(name): _COMDATS.sub(new_comdat, line, count=1) for name, line in module.comdats.items()}
    entities = {
        name: replace(entity, text=_COMDATS.sub(new_comdat, entity.header) + entity.text[len(entity.header) :])
        if "comdat(" in entity.header
        else entity
        for name, entity in module.entities.items()
    }
    groups = {number: without_cpu(group) for number, group in module.attribute_groups.items()}
    return replace(module, entities=entities, comdats=comdats, attribute_groups=groups)

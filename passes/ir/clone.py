"""Copy a function and the functions that it calls into a module that is compiled for one core.

Code is versioned, data never is. In the module of version f.cortex-a55

    f                        is renamed to f.cortex-a55: hidden, called by f's dispatcher through a table
    hot functions it calls   are their own cortex-a55 versions, called without a second dispatch, free to be inlined;
                             they have the attributes that LLVM infers of the function (call_effects.py)
    helpers it calls         are copied, internal to the version, so that inlining and code generation are per core
    other functions          (cold, noreturn, replaceable at link time, or called through a pointer) stay the program's
                             single copy
    variables                stay the program's single object, declared here; constants are available_externally, so
                             that their values may still be folded
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mavcg.passes.ir.attributes import has_attribute, without_cpu
from mavcg.passes.ir.call_effects import with_effects
from mavcg.passes.ir.definition_text import (
    copy_definition,
    plain_definition,
    rename_symbols,
    uses_in_body,
    uses_in_header,
)
from mavcg.passes.ir.grammar import quote
from mavcg.passes.ir.hot_module import MERGEABLE, HotModule, shared_name, version_symbol
from mavcg.passes.ir.module_text import Entity, ModuleText, linkage, with_entities
from mavcg.passes.ir.shared import alias_target, shared_declaration, why_not_clonable

_INLINABLE = {"external", "internal", "private", "linkonce_odr", "weak_odr", "available_externally"}


@dataclass(frozen=True)
class Version:
    """The module of one version.

    symbol: of the version. needs: symbols of the rest of the program that it uses, by their names there. origins:
    symbol of each function that the module defines -> the function it is a copy of.
    """

    symbol: str
    module: ModuleText
    needs: frozenset[str]
    origins: Mapping[str, str]


def make_version(hot: HotModule, name: str, label: str) -> Version:
    """Return the module of a version of a hot function, without CPU attributes.

    name: of the function. label: of the version, such as "cortex-a55".
    """
    builder = _Builder(hot, label)
    builder.add_hot(name, defined_here=True)
    builder.drain()
    module = with_entities(builder.groups_without_cpu(), builder.entities)
    comdat = _version_comdat(hot, name, label)
    if comdat:
        module = replace(module, comdats={**module.comdats, **comdat})
    needs = frozenset(n for n in builder.shared if n in hot.module.entities)
    return Version(version_symbol(hot, name, label), module, needs, builder.origins)


def _version_comdat(hot: HotModule, name: str, label: str) -> dict[str, str]:
    entity = hot.module.entities[name]
    if hot.module.linkage(name) not in MERGEABLE or not _in_comdat(entity):
        return {}
    symbol = version_symbol(hot, name, label)
    return {symbol: f"${quote(symbol)} = comdat any"}


def _in_comdat(entity: Entity) -> bool:
    """True if a definition is in a comdat group; Mach-O has no groups and merges weak definitions."""
    return re.search(r" comdat(?=[( ]|$)", entity.header) is not None


class _Builder:
    """Collects the entities of a version's module, by a worklist of function bodies to copy."""

    def __init__(self, hot: HotModule, label: str) -> None:
        self.hot = hot
        self.label = label
        self.entities: dict[str, Entity] = {}
        self.shared: set[str] = set()
        self.origins: dict[str, str] = {}
        self._pending: list[tuple[str, Entity]] = []

    def groups_without_cpu(self) -> ModuleText:
        groups = {number: without_cpu(text) for number, text in self.hot.module.attribute_groups.items()}
        return replace(self.hot.module, attribute_groups=groups, module_asm=())

    def add_hot(self, name: str, defined_here: bool) -> str:
        symbol = version_symbol(self.hot, name, self.label)
        if symbol not in self.entities:
            entity = self.hot.module.entities[name]
            if not defined_here:
                copy = plain_definition(entity, "available_externally hidden")
                stated = with_effects(copy.header, self.hot.module.effects[name])
                copy = replace(copy, text=stated + copy.text[len(copy.header) :])
            elif self.hot.module.linkage(name) in MERGEABLE:
                comdat = f"comdat(${quote(symbol)})" if _in_comdat(entity) else ""
                copy = plain_definition(entity, "weak_odr hidden", comdat)
            else:
                copy = plain_definition(entity, "hidden")
            self._copy(symbol, copy)
        return symbol

    def _copy(self, symbol: str, entity: Entity) -> None:
        self.entities[symbol] = entity  # holds the place; the renamed body comes with drain()
        self.origins[symbol] = entity.name
        self._pending.append((symbol, entity))

    def drain(self) -> None:
        while self._pending:
            symbol, entity = self._pending.pop()
            uses = dict.fromkeys([*uses_in_header(entity), *uses_in_body(entity)])
            names = {use: self._name(use.name, use.is_callee) for use in uses}
            self.entities[symbol] = copy_definition(entity, symbol, names)

    def _name(self, name: str, is_callee: bool) -> str:
        entity = self.hot.module.entities.get(name)
        if entity is None:
            return name
        entity = alias_target(self.hot.module, entity)
        name = entity.name
        if is_callee and entity.kind == "define" and self.hot.module.linkage(name) in _INLINABLE:
            if name in self.hot.hot:
                return self.add_hot(name, defined_here=False)
            if not self._stays_single(entity):
                return self._add_helper(entity)
        return self._add_shared(entity)

    def _stays_single(self, entity: Entity) -> bool:
        attributes = self.hot.attributes(entity.name)
        return any(has_attribute(attributes, a) for a in ("cold", "noreturn", "naked")) or bool(
            why_not_clonable(self.hot.module, entity.name)
        )

    def _add_helper(self, entity: Entity) -> str:
        if self.hot.module.linkage(entity.name) == "available_externally":
            if entity.name not in self.entities:
                self._copy(entity.name, plain_definition(entity, "available_externally"))
            return entity.name
        symbol = f"{entity.name}.{self.label}"
        if symbol not in self.entities:
            self._copy(symbol, plain_definition(entity, "internal"))
        return symbol

    def _add_shared(self, entity: Entity) -> str:
        name = shared_name(self.hot, entity.name)
        if name not in self.entities:
            self.shared.add(entity.name)
            self.entities[name] = entity
            new = shared_declaration(self.hot, entity)
            if new.text.startswith("@") and linkage(new) == "available_externally":
                own, initializer = new.text.split(" = ", 1)
                new = replace(new, text=f"{own} = {rename_symbols(initializer, lambda n, call: self._name(n, False))}")
            self.entities[name] = new
        return name

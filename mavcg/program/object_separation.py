"""Divides a module between the object of the program's own compiler and the versions that are linked with it.

Cold functions and all data stay in the compiler's object; hot functions are removed from its assembly. Every variable
stays a single object: a static one of the compiler's gets a hidden alias, which versions use. Entities that the
compiler has optimised away (folded constants, functions that it inlined everywhere) are defined with the versions.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mavcg.passes.asm.transforms.remove_definitions import (
    CannotSeparate,
    Symbol,
    add_aliases,
    defined_symbols,
    remove_functions,
    words_in_function,
)
from mavcg.passes.ir.grammar import symbols_in
from mavcg.passes.ir.hot_module import HotModule, shared_name, version_symbol
from mavcg.passes.ir.module_text import Entity, ModuleText, with_entities
from mavcg.passes.ir.shared import alias_of, keep_for_versions, shared_declaration

_MERGED = frozenset({"linkonce", "linkonce_odr", "weak", "weak_odr"})
_NUMBER = re.compile(r"\d+$")
# Constants that gcc generates: names of functions, tables of switches, initial values of locals.
_COMPILERS_OWN = re.compile(r"(_ZZ.*)?__(func|FUNCTION|PRETTY_FUNCTION)__|CSWTCH\.|C\.\d+\.\d+$|_ZTS")
_EXTERNAL = re.compile(r'@(?:"[^"]*"|[-a-zA-Z$._0-9]+) = (?:external|extern_weak) ')
_STARTUP = re.compile(r"__cxx_global_var_init|_GLOBAL__sub_I_|__tls_init")


@dataclass(frozen=True)
class SeparatedModule:
    """A module that is divided between two objects.

    Args:
        assembly: the compiler's assembly without the hot functions.
        base: module of the dispatchers, and of entities that the compiler's object lacks.
        aligned: hidden alias of a variable of the compiler's -> alignment in bytes that versions expect.
        named: hidden alias -> the compiler's symbol.
    """

    assembly: str
    base: ModuleText
    aligned: Mapping[str, int]
    named: Mapping[str, str]


def separate(
    hot: HotModule, dispatched: Sequence[str], single: Mapping[str, Sequence[str]], needs: Collection[str], text: str
) -> SeparatedModule:
    """Divide a module between the compiler's object and the versions.

    Args:
        dispatched: functions that get dispatchers.
        single: function with one version for all cores -> labels of its versions that other versions call.
        needs: symbols of the module that versions use.
        text: the compiler's assembly.
    Raises: CannotSeparate with the reason why versions cannot be linked with the compiler's object.
    """
    plan = _Separation(hot, frozenset(dispatched), defined_symbols(text), text)
    plan.visit(needs)
    entities = hot.module.entities
    for function, labels in single.items():
        if labels and hot.module.linkage(function) in _MERGED:
            raise CannotSeparate(f"{function} has one version, which may be another file's, and other versions call it")
        plan.theirs.update({version_symbol(hot, function, label): function for label in labels})
    promoted = {name for name in dispatched if hot.module.is_local(name)}
    base = keep_for_versions(hot, {*needs, *plan.seen, *dispatched})
    own_aliases = [
        name
        for name, entity in entities.items()
        if entity.kind == "alias" and name in plan.symbols and _aliasee(entity) in plan.dispatched
    ]
    entities_of_base = _definitions(hot, base, plan, own_aliases)
    taken = {name: shared_name(hot, name) for name in dispatched}
    for name in dispatched:
        if name not in promoted and re.search(rf"\.localalias(\.\d+)?,\s*{re.escape(name)}\s*$", text, re.MULTILINE):
            alias = alias_of(entities[name], f"{name}.{hot.tag}")
            entities_of_base[alias.name] = alias
    assembly = remove_functions(text, taken, own_aliases, hot.tag)
    made = with_entities(replace(base, module_asm=()), entities_of_base)
    aligned = {new: align for new, name in plan.theirs.items() if (align := plan.aligned.get(name))}
    return SeparatedModule(add_aliases(assembly, plan.theirs), made, aligned, plan.theirs)


def _may_have_size(entity: Entity, size: int | None) -> bool:
    """True if a variable may have this size in bytes; True too if the size of its type is not computed here."""
    match = re.search(r"\b(?:global|constant) (?:\[(\d+) x )?(i8|i16|i32|i64|float|double|ptr)\b", entity.header)
    if not match or size is None:
        return True
    scalar = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8, "ptr": 8}[match[2]]
    return size == scalar * int(match[1] or 1)


def _plain(name: str) -> str:
    """Return a C++ linkage name without marks of internal linkage, which gcc and clang put at different positions."""
    return re.sub(r"L(?=\d)", "", name) if name.startswith("_Z") else name


def _is_declared(entity: Entity) -> bool:
    return entity.kind == "declare" or entity.kind == "variable" and bool(_EXTERNAL.match(entity.text))


def _aliasee(entity: Entity) -> str:
    match = re.search(r', ptr @("[^"]*"|[-a-zA-Z$._0-9]+)(?:, partition .*)?$', entity.text)
    return match[1].strip('"') if match else ""


@dataclass
class _Separation:
    """Visits all entities that versions use, and decides which of the two objects defines each.

    Args:
        ours: names that are defined with the versions.
        theirs: hidden alias -> symbol of the compiler's object.
        seen: all names that were visited.
        aligned: hidden alias -> alignment in bytes that versions expect.
    """

    hot: HotModule
    dispatched: frozenset[str]
    symbols: Mapping[str, Symbol]
    text: str
    ours: set[str] = field(default_factory=set)
    theirs: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    aligned: dict[str, int] = field(default_factory=dict)

    def visit(self, names: Collection[str]) -> None:
        pending = sorted(names)
        while pending:
            name = pending.pop()
            entity = self.hot.module.entities.get(name)
            if entity is None or name in self.seen or _is_declared(entity):
                continue
            self.seen.add(name)
            if name in self.dispatched or self.hot.module.linkage(name) == "available_externally":
                continue
            if self.hot.module.is_local(name):
                symbol = self._matching(entity)
                if symbol:
                    self._share(entity, symbol)
                    continue
            elif name in self.symbols:
                continue
            elif self.hot.module.linkage(name) not in _MERGED:
                raise CannotSeparate(f"the compiler's object does not define {name}")
            self.ours.add(name)
            pending += sorted(_names_in(entity, self.hot.module.entities))

    def _share(self, entity: Entity, symbol: str) -> None:
        guard = "_ZGV" + symbol.removeprefix("_Z")
        if guard in self.symbols and guard not in self.hot.module.entities:
            raise CannotSeparate(f"the compiler initialises {symbol} when it is first used, and clang before")
        if symbol in self.theirs.values():
            raise CannotSeparate(f"two variables of the module are {symbol} by their names")
        self.theirs[shared_name(self.hot, entity.name)] = symbol
        align = re.search(r", align (\d+)", entity.text) if entity.kind == "variable" else None
        if align:
            self.aligned[symbol] = int(align[1])

    def _matching(self, entity: Entity) -> str | None:
        """Return the compiler's symbol for a static function or variable; None if it has none."""
        name = entity.name
        known = self.symbols.get(name)
        if known and not known.is_global:
            return name
        if self.hot.module.linkage(name) == "private" and " unnamed_addr " in entity.header:
            return None  # such as a string, whose address is not significant
        if entity.kind != "variable":
            return None
        function, variable = self._local_of(name)
        candidates = [
            symbol
            for symbol, facts in self.symbols.items()
            if not facts.is_global
            and (variable and re.fullmatch(rf"{re.escape(variable)}\.\d+", symbol) or _plain(symbol) == _plain(name))
        ]
        if len(candidates) > 1 and function:
            used = words_in_function(self.text, function)
            candidates = [symbol for symbol in candidates if symbol in used]
        if len(candidates) > 1:
            raise CannotSeparate(f"{name} may be {' or '.join(candidates)} of the compiler's object")
        if candidates:
            return candidates[0]
        self._check_gone(entity)
        return None

    def _local_of(self, name: str) -> tuple[str, str]:
        """Split clang's name for a static variable in a C function, such as f.counter.1, into (function, variable)."""
        parts = [part for part in name.split(".")]
        if len(parts) > 2 and _NUMBER.match(parts[-1]):
            parts.pop()
        return ("", "") if len(parts) < 2 else (".".join(parts[:-1]), parts[-1])

    def _check_gone(self, entity: Entity) -> None:
        """Check that the compiler's object does not define a variable by another name. Raises: CannotSeparate."""
        entities = self.hot.module.entities
        if entity.name.startswith("_ZGV"):
            raise CannotSeparate(f"the compiler initialises {entity.name[4:]} before it is first used, and clang then")
        functions = self.hot.module.objects.functions.values()
        users = [f.name for f in functions if any(use.name == entity.name for use in f.body.uses)]
        if any(map(_STARTUP.match, users)):
            raise CannotSeparate(f"the compiler computes {entity.name} when it compiles, and clang when it starts")
        if re.search(r"\bconstant\b", entity.header.partition("[")[0].partition("{")[0]):
            return
        stems = {self._local_of(name)[1] or _plain(name) for name in entities}
        unknown = [
            symbol
            for symbol, facts in self.symbols.items()
            if facts.kind == "object"
            and not facts.is_global
            and symbol not in entities
            and re.sub(r"\.\d+$", "", symbol) not in stems
            and _plain(symbol) not in stems
            and not _COMPILERS_OWN.match(symbol)
            and _may_have_size(entity, facts.bytes)
        ]
        if unknown:
            raise CannotSeparate(f"{entity.name} may be {unknown[0]} of the compiler's object")


def _names_in(entity: Entity, entities: Mapping[str, Entity]) -> set[str]:
    return {name for name in symbols_in(entity.text) if name != entity.name and name in entities}


def _definitions(
    hot: HotModule, base: ModuleText, plan: _Separation, own_aliases: Collection[str]
) -> dict[str, Entity]:
    """Return the entities of the versions' own module: definitions, and declarations of symbols that they use."""
    original = {
        shared_name(hot, name) if shared_name(hot, name) in base.entities else name: name
        for name in (hot.module.entities)
    }
    defined = {*plan.ours, *plan.dispatched, *own_aliases}
    entities = {new: base.entities[new] for new, name in original.items() if name in defined and new in base.entities}
    entities |= {name: base.entities[name] for name in plan.ours if name in base.entities}  # inline assembly names it
    bodies = {new: e for new, e in entities.items() if original.get(new) not in plan.dispatched}
    named: set[str] = set()
    for entity in bodies.values():
        named |= _names_in(entity, base.entities)
    for name in sorted(named - set(entities)):
        entity = hot.module.entities[original.get(name, name)]
        entities[name] = entity if _is_declared(entity) else shared_declaration(hot, entity, foldable=False)
    return entities

"""One function and what it calls -> a module of its own, ready to be compiled for one core.

Code is versioned, data never is. In the module of version f.cortex-a55

    f                        is renamed to f.cortex-a55: hidden, called by f's dispatcher through a table
    hot functions it calls   are their own cortex-a55 versions, called without a second dispatch, free to be inlined
    helpers it calls         are copied, internal to the version, so that inlining and code generation are per core
    cold or noreturn ones,   whatever may be replaced at link time, and every function whose address is taken stay
                             the program's single copy
    variables                stay one object: declared here; constants are available_externally, so that their values
                             may still be folded
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from mavcg.passes.ir.attributes import has_attribute, without_cpu
from mavcg.passes.ir.module_text import (
    NAME,
    REPLACEABLE,
    Entity,
    ModuleText,
    is_local,
    linkage,
    quote,
    rename_symbols,
    unquote,
    with_entities,
    with_linkage,
)
from mavcg.passes.ir.movable import named_in_asm, why_not_movable
from mavcg.passes.ir.signature import declaration, function_type, parse_signature
from mavcg.passes.ir.types import closing, split_commas, split_type

_INLINABLE = {"external", "internal", "private", "linkonce_odr", "weak_odr", "available_externally"}
_MERGEABLE = {"linkonce_odr", "weak_odr"}
_KEPT = {"linkonce_odr": "weak_odr", "linkonce": "weak"}


@dataclass(frozen=True)
class HotModule:
    """A module whose hot functions are to be versioned.

    hot: names of the functions that get versions; all are defined in the module and can be cloned.
    tag: distinguishes this module's local symbols from those of every other module they may be linked with.
    """

    module: ModuleText
    hot: frozenset[str]
    tag: str

    def attributes(self, entity: Entity) -> str:
        """All attribute text that holds for a function: its groups and what is written inline."""
        return function_attributes(self.module, entity)


@dataclass(frozen=True)
class Version:
    """The module of one version.

    needs: symbols of the rest of the program that it uses, by their names there.
    origins: symbol of each function that is defined here -> the function it is a copy of.
    """

    symbol: str
    module: ModuleText
    needs: frozenset[str]
    origins: Mapping[str, str]


def function_attributes(module: ModuleText, entity: Entity) -> str:
    """All attribute text that holds for a function: its groups and what is written inline."""
    after = parse_signature(entity).after
    groups = re.findall(r"#\d+", re.sub(r'"[^"]*"', "", after))
    return " ".join([after, *(module.attribute_groups.get(group, "") for group in groups)])


def version_stem(hot: HotModule, name: str) -> str:
    """What a hot function's version symbols begin with: its name, tagged where another module may have its own
    function of that name (static functions, and definitions that the linker may replace)."""
    keeps_name = linkage(hot.module.entities[name]) in {"external", *_MERGEABLE}
    return name if keeps_name else f"{name}.{hot.tag}"


def version_symbol(hot: HotModule, name: str, label: str) -> str:
    """The symbol of a version: f.cortex-a55."""
    return f"{version_stem(hot, name)}.{label}"


def shared_name(hot: HotModule, name: str) -> str:
    """The name under which version modules reach a symbol that stays single: local ones are promoted, as ThinLTO
    does, to hidden ones with a name of their own."""
    entity = hot.module.entities.get(name)
    return f"{name}.{hot.tag}" if entity and is_local(entity) else name


def make_version(hot: HotModule, name: str, label: str) -> Version:
    """The module of hot function `name`'s version `label`, with no cpu attributes yet."""
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
    if linkage(entity) not in _MERGEABLE or not _in_comdat(entity):
        return {}
    symbol = version_symbol(hot, name, label)
    return {symbol: f"${quote(symbol)} = comdat any"}


def _in_comdat(entity: Entity) -> bool:
    """Whether a definition merges by a comdat group; Mach-O has none and merges by weak definitions."""
    return re.search(r" comdat(?=[( ]|$)", entity.header) is not None


class _Builder:
    """Collects what a version needs, a worklist of bodies to be copied. (The one mutable thing of this module.)"""

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
                text = _plain_header(entity, "available_externally hidden")
            elif linkage(entity) in _MERGEABLE:
                comdat = f"comdat(${quote(symbol)})" if _in_comdat(entity) else ""
                text = _plain_header(entity, "weak_odr hidden", comdat)
            else:
                text = _plain_header(entity, "hidden")
            self._copy(symbol, text)
        return symbol

    def _copy(self, symbol: str, entity: Entity) -> None:
        self.entities[symbol] = entity  # holds the place; the renamed body comes with drain()
        self.origins[symbol] = entity.name
        self._pending.append((symbol, entity))

    def drain(self) -> None:
        while self._pending:
            symbol, entity = self._pending.pop()
            self.entities[symbol] = Entity(symbol, "define", self._renamed(entity, symbol))

    def _renamed(self, entity: Entity, symbol: str) -> str:
        """The definition under its new name; what its header names (a personality) is never a call."""
        own = parse_signature(entity).name
        body = entity.body.replace(f"blockaddress(@{quote(own)},", f"blockaddress(@{quote(symbol)},")
        header = rename_symbols(entity.header, lambda n, call: symbol if n == own and call else self._name(n, False))
        return header + "\n" + rename_symbols(body, self._name)

    def _name(self, name: str, is_callee: bool) -> str:
        entity = self.hot.module.entities.get(name)
        if entity is None:
            return name
        entity = aliased(self.hot.module, entity)
        name = entity.name
        if is_callee and entity.kind == "define" and linkage(entity) in _INLINABLE:
            if name in self.hot.hot:
                return self.add_hot(name, defined_here=False)
            if not self._stays_single(entity):
                return self._add_helper(entity)
        return self._add_shared(entity)

    def _stays_single(self, entity: Entity) -> bool:
        attributes = self.hot.attributes(entity)
        return any(has_attribute(attributes, a) for a in ("cold", "noreturn", "naked")) or bool(
            why_not_movable(self.hot.module, entity)
        )

    def _add_helper(self, entity: Entity) -> str:
        if linkage(entity) == "available_externally":
            if entity.name not in self.entities:
                self._copy(entity.name, _plain_header(entity, "available_externally"))
            return entity.name
        symbol = f"{entity.name}.{self.label}"
        if symbol not in self.entities:
            self._copy(symbol, _plain_header(entity, "internal"))
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


_ALIASEE = re.compile(rf", ptr @({NAME})(?:, partition .*)?$")


def _plain_header(entity: Entity, new_linkage: str, comdat: str = "") -> Entity:
    """A definition with another linkage and without what belongs to the original symbol only: its comdat, section."""
    first, _, body = entity.text.partition("\n")
    first = re.sub(r" comdat(?:\(\$(?:\"[^\"]*\"|[^)]*)\))?(?= |$)", "", first)
    first = re.sub(r' (?:section|partition) "[^"]*"', "", first)
    plain = with_linkage(Entity(entity.name, "define", first + "\n" + body), new_linkage)
    if not comdat:
        return plain
    # LangRef order: ... [fn Attrs] [section] [comdat] [align] [gc] [prefix] [prologue] [personality] metadata {
    first, _, body = plain.text.partition("\n")
    place = re.search(
        r' (?:align \d+|gc "|prefix |prologue |personality |!\w+ !\d+|\{$)', first[_after_parameters(first) :]
    )
    assert place, first
    cut = _after_parameters(first) + place.start()
    return replace(plain, text=f"{first[:cut]} {comdat}{first[cut:]}\n{body}")


def _after_parameters(header: str) -> int:
    match = re.search(r'@(?:"[^"]*"|[-a-zA-Z$._0-9]+)\(', header)
    assert match, header
    return closing(header, match.end() - 1)


def aliased(module: ModuleText, entity: Entity) -> Entity:
    """What an alias stands for, where that is a symbol and nothing may replace the alias at link time."""
    while entity.kind == "alias" and linkage(entity) not in REPLACEABLE:
        match = _ALIASEE.search(entity.text)
        if not match or unquote(match[1]) not in module.entities:
            break
        entity = module.entities[unquote(match[1])]
    return entity


def shared_declaration(hot: HotModule, entity: Entity) -> Entity:
    """How a version module names a symbol of the program that stays single.

    What the linker may replace, and an alias, is declared weak: otherwise LLVM takes it for an object that is there and
    that is no other object, and folds comparisons of addresses.
    """
    name = shared_name(hot, entity.name)
    promoted = name != entity.name
    weak = "extern_weak" if linkage(entity) in REPLACEABLE or entity.kind == "alias" else ""
    if entity.kind in ("define", "declare"):
        return declaration(entity, name, "hidden" if promoted else None, weak)
    if entity.kind in ("alias", "ifunc"):
        return _alias_declaration(entity, name, weak or "external", "hidden" if promoted else "")
    return _variable_declaration(entity, name, promoted, weak)


def _alias_declaration(entity: Entity, name: str, new_linkage: str, visibility: str) -> Entity:
    before, _, rest = re.split(r"\b(alias|ifunc) ", entity.text.split(" = ", 1)[1], maxsplit=1)
    value_type, _ = split_type(rest)
    head, space, parameters = value_type.partition(" (")
    if space:
        words = " ".join(w for w in ("declare", new_linkage, visibility, head) if w)
        return Entity(name, "declare", f"{words} @{quote(name)}({parameters}")
    thread_local = re.search(r"\bthread_local(?:\([a-z]+\))?", before)
    parts = (new_linkage, visibility, thread_local and thread_local[0], "global", value_type)
    return Entity(name, "variable", f"@{quote(name)} = {' '.join(w for w in parts if w)}")


_VARIABLE = re.compile(r"^(?P<words>.*?)\b(?P<kind>global|constant) (?P<rest>.*)$")
_KEPT_WORDS = re.compile(
    r"thread_local(?:\([a-z]+\))?|(?:local_)?unnamed_addr|addrspace\([^)]*\)|externally_initialized|dso_local"
    r"|default|hidden|protected"
)


def _variable_declaration(entity: Entity, name: str, promoted: bool, weak: str) -> Entity:
    match = _VARIABLE.match(entity.text.split(" = ", 1)[1])
    assert match, entity.text[:120]
    value_type, rest = split_type(match["rest"])
    words = _KEPT_WORDS.findall(match["words"])
    if promoted:
        words = ["hidden", *(w for w in words if w not in ("default", "hidden", "protected", "dso_local"))]
    initializer, *trailers = split_commas(rest) if rest else [""]
    align = [t for t in trailers if t.startswith("align ")]
    is_declaration = not initializer
    foldable = match["kind"] == "constant" and not is_declaration and linkage(entity) not in REPLACEABLE
    head = ["available_externally" if foldable else weak or "external", *words, match["kind"], value_type]
    value = f" {initializer}" if foldable else ""
    text = f"@{quote(name)} = {' '.join(head)}{value}" + "".join(f", {a}" for a in align)
    return Entity(name, "variable", text)


def keep_for_versions(hot: HotModule, needs: Collection[str]) -> ModuleText:
    """The program's own module with every symbol that versions need from it kept and reachable.

    @table = internal constant ...           @table.1f2e = hidden constant ...
    define linkonce_odr void @g()      ->    define weak_odr void @g()
    @named = internal global ...             @named = ... ; @named.1f2e = hidden alias ..., ptr @named
                                             (where inline assembly knows the name)
    """
    local = {n for n in needs if is_local(hot.module.entities[n])}
    pinned = local & named_in_asm(hot.module) if local else set()
    moved = local - pinned

    def new_name(name: str, _: bool = False) -> str:
        return shared_name(hot, name) if name in moved else name

    renamed: dict[str, Entity] = {}
    for name, entity in hot.module.entities.items():
        new = entity
        if name in moved:
            new = with_linkage(entity, "hidden")
        elif name in needs and linkage(entity) in _KEPT:
            new = with_linkage(entity, _KEPT[linkage(entity)])
        if moved:
            new = replace(new, text=rename_symbols(new.text, new_name), name=new_name(name))
        renamed[new.name] = new
    for name in sorted(pinned):
        alias = _alias_of(hot.module.entities[name], shared_name(hot, name))
        renamed[alias.name] = alias
    metadata = tuple(rename_symbols(line, new_name) if "@" in line else line for line in hot.module.metadata)
    return replace(hot.module, entities=renamed, metadata=metadata)


def _alias_of(entity: Entity, name: str) -> Entity:
    """A hidden second name of a local symbol."""
    if entity.kind == "define":
        value_type = function_type(parse_signature(entity))
        return Entity(name, "alias", f"@{quote(name)} = hidden alias {value_type}, ptr @{quote(entity.name)}")
    match = _VARIABLE.match(entity.text.split(" = ", 1)[1])
    assert match, entity.text[:120]
    thread_local = re.search(r"\bthread_local(?:\([a-z]+\))?", match["words"])
    words = ["hidden", *([thread_local[0]] if thread_local else []), "alias", split_type(match["rest"])[0]]
    return Entity(name, "alias", f"@{quote(name)} = {' '.join(words)}, ptr @{quote(entity.name)}")


def with_cpu(module: ModuleText, cpu_text: Mapping[str, str]) -> ModuleText:
    """Give every definition its cpu attributes: cpu_text maps a symbol to attribute text."""
    entities = dict(module.entities)
    for name, entity in entities.items():
        if entity.kind == "define":
            cut = _after_parameters(entity.header)
            after = re.match(r"(?: (?:local_)?unnamed_addr)?(?: addrspace\(\d+\))?", entity.text[cut:])
            assert after
            cut += after.end()
            entities[name] = replace(entity, text=f"{entity.text[:cut]} {cpu_text[name]}{entity.text[cut:]}")
    return replace(module, entities=entities)

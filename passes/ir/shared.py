"""Declare the program's symbols in version modules, and keep them reachable in the program's own module.

A function's body may have a reason why it cannot be copied to another module.
"""

import re
from collections.abc import Collection
from dataclasses import replace

from mavcg.passes.ir.definition_text import rename_symbols, with_linkage
from mavcg.passes.ir.grammar import NAME, quote, split_commas, split_type, unescape, unquote
from mavcg.passes.ir.hot_module import HotModule, shared_name
from mavcg.passes.ir.module_text import REPLACEABLE, Entity, ModuleText
from mavcg.passes.ir.signature import declaration, function_type, parse_signature

_WORD = re.compile(r"[A-Za-z_.$][\w.$]*")
_GLOBAL_LABEL = re.compile(r"\.(?:globl|global|weak)\s+([\w.$]+)")


def why_not_clonable(module: ModuleText, name: str) -> str | None:
    """Return the reason why a function's body cannot be copied to another module, or None if it can."""
    if name in module.labels_in_data:
        return "the addresses of its labels are stored in data"
    asm = "\n".join(module.assembly_of(name))
    defined = _GLOBAL_LABEL.search(asm)
    if defined:
        return f"its inline assembly defines the global symbol {defined[1]}, which may exist only once"
    named = next((word for word in _WORD.findall(asm) if module.is_local(word)), None)
    if named:
        return f"its inline assembly names {named}, which is local to its file"
    return None


def symbols_in_asm(module: ModuleText) -> frozenset[str]:
    """Return the module's local symbols that inline or module-level assembly refers to: they cannot be renamed."""
    inline = (text for name in module.definitions() for text in module.assembly_of(name))
    words = _WORD.findall("\n".join([*(unescape(line) for line in module.module_asm), *inline]))
    return frozenset(word for word in words if module.is_local(word))


_KEPT = {"linkonce_odr": "weak_odr", "linkonce": "weak"}


_ALIASEE = re.compile(rf", ptr @({NAME})(?:, partition .*)?$")


def alias_target(module: ModuleText, entity: Entity) -> Entity:
    """Return the symbol that an alias refers to, unless the linker may replace the alias; other entities unchanged."""
    while entity.kind == "alias" and module.linkage(entity.name) not in REPLACEABLE:
        match = _ALIASEE.search(entity.text)
        if not match or unquote(match[1]) not in module.entities:
            break
        entity = module.entities[unquote(match[1])]
    return entity


def shared_declaration(hot: HotModule, entity: Entity, foldable: bool = True) -> Entity:
    """Return the declaration, for a version module, of a symbol that stays in the program's module.

    foldable: True if a constant may be declared with its value. Aliases and symbols that the linker may replace are
    declared weak: otherwise LLVM assumes that their address is not null and differs from all others, and folds
    comparisons of addresses.
    """
    name = shared_name(hot, entity.name)
    promoted = name != entity.name
    is_replaceable = hot.module.linkage(entity.name) in REPLACEABLE
    weak = "extern_weak" if is_replaceable or entity.kind == "alias" else ""
    if entity.kind in ("define", "declare"):
        return declaration(entity, name, "hidden" if promoted else None, weak)
    if entity.kind in ("alias", "ifunc"):
        return _alias_declaration(entity, name, weak or "external", "hidden" if promoted else "")
    return _variable_declaration(entity, name, promoted, weak, foldable and not is_replaceable)


def _alias_declaration(entity: Entity, name: str, new_linkage: str, visibility: str) -> Entity:
    before, _, typed_target = re.split(r"\b(alias|ifunc) ", entity.text.split(" = ", 1)[1], maxsplit=1)
    value_type, _ = split_type(typed_target)
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


def _variable_declaration(entity: Entity, name: str, promoted: bool, weak: str, may_fold: bool) -> Entity:
    match = _VARIABLE.match(entity.text.split(" = ", 1)[1])
    assert match, entity.text[:120]
    value_type, rest = split_type(match["rest"])
    words = _KEPT_WORDS.findall(match["words"])
    if promoted:
        words = ["hidden", *(w for w in words if w not in ("default", "hidden", "protected", "dso_local"))]
    initializer, *trailers = split_commas(rest) if rest else [""]
    align = [t for t in trailers if t.startswith("align ")]
    is_declaration = not initializer
    is_constant = match["kind"] == "constant" and not is_declaration
    foldable = may_fold and is_constant
    head = ["available_externally" if foldable else weak or "external", *words, match["kind"], value_type]
    value = f" {initializer}" if foldable else ""
    text = f"@{quote(name)} = {' '.join(head)}{value}" + "".join(f", {a}" for a in align)
    return Entity(name, "variable", text)


def keep_for_versions(hot: HotModule, needs: Collection[str]) -> ModuleText:
    """Return the program's own module with every symbol in `needs`, which versions refer to, kept and reachable.

    @table = internal constant ...           @table.1f2e = hidden constant ...
    define linkonce_odr void @g()      ->    define weak_odr void @g()
    @named = internal global ...             @named = ... ; @named.1f2e = hidden alias ..., ptr @named
                                             (if inline assembly refers to the name)
    """
    local = {n for n in needs if hot.module.is_local(n)}
    pinned = local & symbols_in_asm(hot.module) if local else set()
    moved = local - pinned

    def new_name(name: str, _: bool = False) -> str:
        return shared_name(hot, name) if name in moved else name

    renamed: dict[str, Entity] = {}
    for name, entity in hot.module.entities.items():
        new = entity
        if name in moved:
            new = with_linkage(entity, "hidden")
        elif name in needs and (strong := _KEPT.get(hot.module.linkage(name))):
            new = with_linkage(entity, strong)
        if moved:
            new = replace(new, text=rename_symbols(new.text, new_name), name=new_name(name))
        renamed[new.name] = new
    for name in sorted(pinned):
        alias = alias_of(hot.module.entities[name], shared_name(hot, name))
        renamed[alias.name] = alias
    metadata = tuple(rename_symbols(line, new_name) if "@" in line else line for line in hot.module.metadata)
    return replace(hot.module, entities=renamed, metadata=metadata)


def alias_of(entity: Entity, name: str) -> Entity:
    """Return a hidden alias, named `name`, of a local symbol."""
    if entity.kind == "define":
        value_type = function_type(parse_signature(entity))
        return Entity(name, "alias", f"@{quote(name)} = hidden alias {value_type}, ptr @{quote(entity.name)}")
    match = _VARIABLE.match(entity.text.split(" = ", 1)[1])
    assert match, entity.text[:120]
    thread_local = re.search(r"\bthread_local(?:\([a-z]+\))?", match["words"])
    words = ["hidden", *([thread_local[0]] if thread_local else []), "alias", split_type(match["rest"])[0]]
    return Entity(name, "alias", f"@{quote(name)} = {' '.join(words)}, ptr @{quote(entity.name)}")

"""Puts a module into one comdat group, so that of several copies in a link with bitcode one is kept whole.

    @table = weak hidden global i64 0, align 8        ->  @table = weak hidden global i64 0, comdat($group), align 8
    @llvm.global_ctors = .. { i32 1, ptr @start, ptr null }   .. { i32 1, ptr @start, ptr @table }
    define internal void @start() {                       define internal void @start() comdat($group) {

A constructor names a variable of the group: it goes with it (LangRef, llvm.global_ctors: "associated data").
"""

import re
from dataclasses import replace

from mavcg.passes.ir.grammar import quote
from mavcg.passes.ir.module_text import Entity, ModuleText


def in_one_comdat(module: ModuleText, group: str) -> ModuleText:
    """Return the module with all its definitions in the comdat group; none of them may be in another one.

    Raises: ValueError for a module with constructors and without a weak variable that they can be tied to.
    """
    entities = {name: _in_group(entity, group) for name, entity in module.entities.items()}
    structors = [name for name in ("llvm.global_ctors", "llvm.global_dtors") if name in entities]
    if structors:
        key = next((e.name for e in module.entities.values() if re.search(r" = weak hidden .*global ", e.header)), None)
        if key is None:
            raise ValueError(f"in_one_comdat: no weak variable in {group}")
        for name in structors:
            text = re.sub(r"(\{ i32 \d+, ptr @\S+, ptr )null( \})", rf"\1@{quote(key)}\2", entities[name].text)
            entities[name] = replace(entities[name], text=text)
    return replace(module, comdats={group: f"${quote(group)} = comdat any"}, entities=entities)


def _in_group(entity: Entity, group: str) -> Entity:
    comdat = f"comdat(${quote(group)})"
    if entity.kind == "define":
        # Before the words that follow it in LangRef's order: align, gc, prefix, personality, metadata, the brace.
        head, body = entity.text.split("\n", 1)
        at = re.search(r"(?: align \d+| personality | !| \{$)", head)
        assert at, head
        return replace(entity, text=f"{head[: at.start()]} {comdat}{head[at.start() :]}\n{body}")
    is_definition = entity.kind == "variable" and not re.search(r" = (?:extern_weak|external|appending) ", entity.text)
    if not is_definition:
        return entity
    head, comma, align = entity.text.rpartition(", align ")
    return replace(entity, text=f"{head}, {comdat}{comma}{align}" if comma else f"{entity.text}, {comdat}")

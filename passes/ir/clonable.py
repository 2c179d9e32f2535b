"""Reasons why a function's body cannot be copied to another module."""

import re

from mavcg.passes.ir.module_text import Entity, ModuleText, is_local

_ASM = re.compile(r'\basm (?:[a-z]+ )*"([^"]*)"')
_WORD = re.compile(r"[A-Za-z_.$][\w.$]*")
_GLOBAL_LABEL = re.compile(r"\.(?:globl|global|weak)\s+([\w.$]+)")


def why_not_clonable(module: ModuleText, entity: Entity) -> str | None:
    """The reason why a function's body has to stay where it is, or None when copies of it may stand elsewhere."""
    if entity.name in module.labels_in_data:
        return "the addresses of its labels are stored in data"
    asm = _asm_of(entity.body)
    defined = _GLOBAL_LABEL.search(asm)
    if defined:
        return f"its inline assembly defines the global symbol {defined[1]}, which may exist only once"
    named = next((word for word in _WORD.findall(asm) if _is_local_name(module, word)), None)
    if named:
        return f"its inline assembly names {named}, which only its own file can see"
    return None


def symbols_in_asm(module: ModuleText) -> frozenset[str]:
    """The module's local symbols that inline or module-level assembly knows by their names, which must stay."""
    bodies = (_asm_of(entity.body) for entity in module.entities.values() if " asm " in entity.body)
    words = _WORD.findall("\n".join([*(_unescape(line) for line in module.module_asm), *bodies]))
    return frozenset(word for word in words if _is_local_name(module, word))


def _is_local_name(module: ModuleText, name: str) -> bool:
    return name in module.entities and is_local(module.entities[name])


def _asm_of(body: str) -> str:
    return "\n".join(_unescape(text) for text in _ASM.findall(body))


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-9A-Fa-f]{2})", lambda m: chr(int(m[1], 16)), text)

"""Finds the reason, if any, why a function's body cannot be copied to another module."""

import re

from mavcg.passes.ir.module_text import ModuleText
from mavcg.passes.ir.symbol_names import unescape

_WORD = re.compile(r"[A-Za-z_.$][\w.$]*")
_GLOBAL_LABEL = re.compile(r"\.(?:globl|global|weak)\s+([\w.$]+)")


def why_not_clonable(module: ModuleText, name: str) -> str | None:
    """Return the reason why a function's body cannot be copied to another module, or None if it can."""
    if name in module.labels_in_data:
        return "the addresses of its labels are stored in data"
    asm = "\n".join(module.objects.functions[name].body.assembly)
    defined = _GLOBAL_LABEL.search(asm)
    if defined:
        return f"its inline assembly defines the global symbol {defined[1]}, which may exist only once"
    named = next((word for word in _WORD.findall(asm) if module.is_local(word)), None)
    if named:
        return f"its inline assembly names {named}, which is local to its file"
    return None


def symbols_in_asm(module: ModuleText) -> frozenset[str]:
    """Return the module's local symbols that inline or module-level assembly refers to: they cannot be renamed."""
    inline = (text for function in module.objects.functions.values() for text in function.body.assembly)
    words = _WORD.findall("\n".join([*(unescape(line) for line in module.module_asm), *inline]))
    return frozenset(word for word in words if module.is_local(word))

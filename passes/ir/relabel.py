"""Reuses an optimised version's module for another core, if the optimisation did not depend on the core."""

import re
from dataclasses import replace

from mavcg.passes.ir.attributes import without_cpu
from mavcg.passes.ir.definition_text import rename_symbols
from mavcg.passes.ir.module_text import ModuleText, parse_module
from mavcg.passes.ir.symbol_names import NAME, quote, unquote

_COMDAT = re.compile(rf"\$({NAME})")


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
    comdats = {new_name(name): _COMDAT.sub(new_comdat, line, count=1) for name, line in module.comdats.items()}
    entities = {
        name: replace(entity, text=_COMDAT.sub(new_comdat, entity.header) + entity.text[len(entity.header) :])
        if "comdat(" in entity.header
        else entity
        for name, entity in module.entities.items()
    }
    groups = {number: without_cpu(group) for number, group in module.attribute_groups.items()}
    return replace(module, entities=entities, comdats=comdats, attribute_groups=groups)

"""Divide the text of an LLVM IR module into top-level entities, so that passes can remove, add and rewrite them.

The text is as LLVM prints it (`str(llvmlite.binding.parse_assembly(...))`): every global is one line and every function
ends with a lone brace (LangRef, "High Level Structure"). Properties of entities come from llvmlite's objects, which
cannot be changed in this manner (module_objects.py).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from mavcg.passes.ir.attributes import without_cpu
from mavcg.passes.ir.call_effects import CallEffects, infer_effects
from mavcg.passes.ir.grammar import NAME, own_symbol, unquote
from mavcg.passes.ir.module_objects import IrObjects, read_objects

_VALUE_OR_TEXT = re.compile(rf'ptr @({NAME})|"[^"]*"')
_GLOBAL = re.compile(rf"@({NAME}) = ")
EMPTY_GROUP = '"mavcg-empty"'
LOCAL_LINKAGE = {"internal", "private"}
_BLOCKADDRESS = re.compile(rf"blockaddress\(@({NAME}),")
_COMDAT = re.compile(rf"comdat\(\$({NAME})\)")
_VECTOR = re.compile(r"<(?:vscale x )?\d+ x ")
# Linkages of symbols for which the linker may take a definition from elsewhere with another meaning.
REPLACEABLE = frozenset({"weak", "linkonce", "common", "extern_weak"})


@dataclass(frozen=True)
class Entity:
    """A top-level `@name`: a variable, an alias or ifunc, a declaration or a definition, with its whole text.

    kind: "variable", "alias", "ifunc", "declare" or "define".
    """

    name: str
    kind: str
    text: str

    @property
    def header(self) -> str:
        """The first line: the whole text except a function's body."""
        return self.text.split("\n", 1)[0]

    @property
    def body(self) -> str:
        """A definition's lines after the header, closing brace included; "" for every other kind."""
        return self.text.partition("\n")[2]


@dataclass(frozen=True)
class ModuleText:
    """A module divided into its parts; `str()` joins them. Each mapping has the order of the input."""

    target: tuple[str, ...]
    module_asm: tuple[str, ...]
    types: tuple[str, ...]
    comdats: Mapping[str, str]
    entities: Mapping[str, Entity]
    attribute_groups: Mapping[str, str]
    metadata: tuple[str, ...] = field(default=())

    @cached_property
    def labels_in_data(self) -> frozenset[str]:
        """Functions whose label addresses are stored in variables (a table of computed gotos)."""
        variables = (entity.text for entity in self.entities.values() if entity.kind == "variable")
        return frozenset(unquote(m[1]) for text in variables for m in _BLOCKADDRESS.finditer(text))

    @cached_property
    def names_vectors(self) -> bool:
        """False if no type of the module is or holds a vector."""
        return bool(_VECTOR.search(str(self)))

    @cached_property
    def objects(self) -> IrObjects:
        """The module as llvmlite's objects, for reading only: changes to them do not reach the text."""
        return read_objects(str(self))

    @cached_property
    def effects(self) -> Mapping[str, CallEffects]:
        """Function that is defined here -> what a call of it may do."""
        groups = {number: without_cpu(text) for number, text in self.attribute_groups.items()}
        return infer_effects(str(replace(self, attribute_groups=groups)))

    def assembly_of(self, name: str) -> tuple[str, ...]:
        """Return the templates of inline assembly in a function."""
        entity = self.entities[name]  # its text tells at once what a walk over all instructions would
        return self.objects.functions[name].body.assembly if " asm " in entity.text else ()

    def linkage(self, name: str) -> str:
        """Return the linkage of a symbol of the module."""
        if (known := self._linkages.get(name)) is None:
            known = self._linkages[name] = self.objects.linkage(name) or linkage(self.entities[name])
        return known

    @cached_property
    def _linkages(self) -> dict[str, str]:
        """Linkages by symbol, kept because each version needs those of all symbols that it uses."""
        return {}

    def is_local(self, name: str) -> bool:
        """True if a symbol of the module is invisible outside its object file."""
        return name in self.entities and self.linkage(name) in LOCAL_LINKAGE

    def __str__(self) -> str:
        # LLVM refuses an empty group, but functions still refer to it: a string attribute without a meaning fills it.
        groups = [f"attributes {n} = {{ {text or EMPTY_GROUP} }}" for n, text in self.attribute_groups.items()]
        entities = [entity.text for entity in self.entities.values()]
        lines = [
            *self.target,
            *self.module_asm,
            *self.types,
            *self.comdats.values(),
            *entities,
            *groups,
            *self.metadata,
        ]
        return "\n".join(lines) + "\n"

    def definitions(self) -> list[str]:
        """Return the names of the functions that have a body here."""
        return [entity.name for entity in self.entities.values() if entity.kind == "define"]


def parse_module(text: str) -> ModuleText:
    """Parse a module printed by LLVM into entities. Comments and blank lines are dropped; order is kept."""
    target: list[str] = []
    module_asm: list[str] = []
    types: list[str] = []
    comdats: dict[str, str] = {}
    entities: dict[str, Entity] = {}
    groups: dict[str, str] = {}
    metadata: list[str] = []

    lines = iter(text.split("\n"))
    for line in lines:
        if line.startswith("define "):
            body = [line]
            for inner in lines:
                body.append(inner)
                if inner == "}":
                    break
            _add(entities, unquote(own_symbol(line)["name"]), "define", "\n".join(body))
        elif line.startswith("declare "):
            _add(entities, unquote(own_symbol(line)["name"]), "declare", line)
        elif line.startswith("@"):
            match = _GLOBAL.match(line)
            assert match, f"not a global as LLVM prints it: {line[:80]}"
            rest = line[match.end() :]
            kind = next(
                (k for k in ("alias", "ifunc") if re.match(rf"(?:[a-z_]+(?:\([a-z]*\))? )*?{k} ", rest)), "variable"
            )
            _add(entities, unquote(match[1]), kind, line)
        elif line.startswith("%"):
            types.append(line)
        elif line.startswith("$"):
            comdats[unquote(line[1:].partition(" = ")[0])] = line
        elif line.startswith("attributes #"):
            number, _, group = line.removeprefix("attributes ").partition(" = { ")
            groups[number] = group.removesuffix(" }")
        elif line.startswith("!"):
            metadata.append(line)
        elif line.startswith("module asm"):
            module_asm.append(line)
        elif line.startswith(("target ", "source_filename")):
            target.append(line)
    return ModuleText(tuple(target), tuple(module_asm), tuple(types), comdats, entities, groups, tuple(metadata))


def _add(entities: dict[str, Entity], name: str, kind: str, text: str) -> None:
    entities[name] = Entity(name, kind, text)


def with_entities(module: ModuleText, entities: Mapping[str, Entity]) -> ModuleText:
    """Return the module with these entities instead of its own.

    Metadata that refers to a removed symbol refers to null instead, as after LLVM's deletion of a value. Unused comdats
    are removed.
    """
    known = set(entities)

    def drop_unknown(match: re.Match[str]) -> str:
        return match[0] if match[1] is None or unquote(match[1]) in known else "null"

    metadata = tuple(_VALUE_OR_TEXT.sub(drop_unknown, line) if "@" in line else line for line in module.metadata)
    used = _used_comdats(entities) if module.comdats else set()
    comdats = {name: line for name, line in module.comdats.items() if name in used}
    return replace(module, entities=entities, comdats=comdats, metadata=metadata)


def _used_comdats(entities: Mapping[str, Entity]) -> set[str]:
    """Return the comdats in headers: `comdat($name)`, or `comdat` for the one that has the symbol's name."""
    headers = {name: entity.header for name, entity in entities.items()}
    own = {name for name, header in headers.items() if re.search(r"\bcomdat(?!\()", header)}
    return own | {unquote(m[1]) for header in headers.values() for m in _COMDAT.finditer(header)}


def linkage(entity: Entity) -> str:
    """Return the linkage keyword in a global's text; "external" if it has none."""
    words = entity.header.partition(" = ")[2] if entity.header.startswith("@") else entity.header.partition(" ")[2]
    word = words.split(" ", 1)[0]
    return word if word in LINKAGES else "external"


LINKAGES = (
    "private",
    "internal",
    "available_externally",
    "linkonce",
    "weak",
    "common",
    "appending",
    "extern_weak",
    "linkonce_odr",
    "weak_odr",
    "external",
)

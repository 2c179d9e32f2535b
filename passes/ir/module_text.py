"""Divide LLVM IR text into top-level entities, which can be left out, added and rewritten; llvmlite's objects cannot.

The text is what LLVM itself prints (`str(llvmlite.binding.parse_assembly(...))`), where every global is one line and
every function ends with a lone brace; LangRef ("High Level Structure") is the grammar. What entities are and use, the
module's objects say.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from mavcg.passes.ir.module_objects import IrObjects, read_objects
from mavcg.passes.ir.symbol_names import NAME, unquote

_VALUE_OR_TEXT = re.compile(rf'ptr @({NAME})|"[^"]*"')
_GLOBAL = re.compile(rf"@({NAME}) = ")
_DEFINE = re.compile(rf"(?:define|declare)\b[^@]*?@({NAME})\(")
EMPTY_GROUP = '"mavcg-empty"'
LOCAL_LINKAGE = {"internal", "private"}
_BLOCKADDRESS = re.compile(rf"blockaddress\(@({NAME}),")
_COMDAT = re.compile(rf"comdat\(\$({NAME})\)")
# Where the linker may take another definition, of another meaning, than the one that is seen here.
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
        """The first line: all of it but a function's body."""
        return self.text.split("\n", 1)[0]

    @property
    def body(self) -> str:
        """A definition's lines after the header, closing brace included; empty for every other kind."""
        return self.text.partition("\n")[2]


@dataclass(frozen=True)
class ModuleText:
    """A module in pieces; `str()` puts it together again. Each mapping keeps the order of the input."""

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
    def objects(self) -> IrObjects:
        """The module as llvmlite's objects, which are for reading: a change to them is none of the text."""
        return read_objects(str(self))

    def linkage(self, name: str) -> str:
        """Return the linkage of a symbol of the module; llvmlite has no list of aliases and ifuncs, whose line says
        it."""
        return self.objects.linkage(name) or linkage(self.entities[name])

    def is_local(self, name: str) -> bool:
        """True if this is a symbol of the module and invisible outside its own object file."""
        return name in self.entities and self.linkage(name) in LOCAL_LINKAGE

    def __str__(self) -> str:
        # LLVM refuses an empty group, and functions still name it: a string that means nothing keeps it.
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
            _add(entities, _function_name(line), "define", "\n".join(body))
        elif line.startswith("declare "):
            _add(entities, _function_name(line), "declare", line)
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


def _function_name(line: str) -> str:
    match = _DEFINE.match(line)
    assert match, f"not a function as LLVM prints it: {line[:80]}"
    return unquote(match[1])


def _add(entities: dict[str, Entity], name: str, kind: str, text: str) -> None:
    entities[name] = Entity(name, kind, text)


def with_entities(module: ModuleText, entities: Mapping[str, Entity]) -> ModuleText:
    """Return the module with other contents; metadata that names a symbol which is gone names null instead, as LLVM
    does when it deletes a value; comdats that nobody uses any more go."""
    known = set(entities)

    def drop_unknown(match: re.Match[str]) -> str:
        return match[0] if match[1] is None or unquote(match[1]) in known else "null"

    metadata = tuple(_VALUE_OR_TEXT.sub(drop_unknown, line) if "@" in line else line for line in module.metadata)
    used = _used_comdats(entities) if module.comdats else set()
    comdats = {name: line for name, line in module.comdats.items() if name in used}
    return replace(module, entities=entities, comdats=comdats, metadata=metadata)


def _used_comdats(entities: Mapping[str, Entity]) -> set[str]:
    """Return the comdats that headers name: `comdat($name)`, or `comdat` for one of the symbol's own name."""
    headers = {name: entity.header for name, entity in entities.items()}
    own = {name for name, header in headers.items() if re.search(r"\bcomdat(?!\()", header)}
    return own | {unquote(m[1]) for header in headers.values() for m in _COMDAT.finditer(header)}


def linkage(entity: Entity) -> str:
    """Return the linkage keyword in a global's text; "external" where none is written."""
    rest = entity.header.partition(" = ")[2] if entity.header.startswith("@") else entity.header.partition(" ")[2]
    word = rest.split(" ", 1)[0]
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

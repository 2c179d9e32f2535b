"""Give a hot function's name to a dispatcher, which reads the CPU number, looks up the version and jumps to it.

    f:        read the CPU number from the thread's rseq area, look up its core id, jump to f.versions[core id]
    f.slow:   all other cases (no rseq, an unknown CPU, tracing): the runtime chooses the version; jump to it
    f.versions, f.runs, f.function:   f's tables for the runtime (runtime/csrc/mavcg_runtime.h)

The jump is a `musttail` call with f's prototype and attributes: no argument is copied, and the version returns to f's
caller. Callers see what a call of f may do (call_effects.py). A function with a single version gets no dispatcher.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mavcg.passes.ir.attributes import cpu_attributes_of
from mavcg.passes.ir.call_effects import ATTRIBUTE, CallEffects, with_effects
from mavcg.passes.ir.grammar import escape, find_closing, own_symbol, quote
from mavcg.passes.ir.hot_module import MERGEABLE, HotModule, version_symbol
from mavcg.passes.ir.module_text import Entity, ModuleText, parse_module
from mavcg.passes.ir.signature import Signature, declaration, function_type, parse_signature

# Function attributes about calls and unwinding, which the dispatcher keeps; all others describe the body.
_CALL_ATTRIBUTES = re.compile(
    r'^(nounwind|uwtable|nonlazybind|sspstrong|sspreq|ssp|alignstack|shadowcallstack|"branch-target-enforcement"'
    r'|"guarded-control-stack"|"sign-return-address|"min-legal-vector-width"|"probe-stack"|"stackrealign"'
    r'|"aarch64_\w+"|"cf-protection)'
)


@dataclass(frozen=True)
class RuntimeNames:
    """The runtime's symbols for one core set, from runtime/coreset.py.

    rseq_offset: offset of the rseq area from the thread pointer. core_of_cpu: table CPU number -> core id, with
    table_size entries of a byte. select: the function that chooses a version. has_rseq: True if the system may have an
    rseq area; without one, every call goes through the runtime.
    """

    rseq_offset: str
    core_of_cpu: str
    select: str
    table_size: int
    has_rseq: bool = True


@dataclass(frozen=True)
class Dispatch:
    """The versions of one function that its dispatcher chooses from.

    targets: their symbols for core ids 1, 2, ...: the generic version first, then those of the core set in its order.
    runtime: symbols of the table by which it chooses.
    """

    name: str
    targets: tuple[str, ...]
    runtime: RuntimeNames


def add_dispatchers(
    hot: HotModule, base: ModuleText, dispatches: Sequence[Dispatch], has_callers: bool = True
) -> ModuleText:
    """Return the program's module with the body of each dispatched function replaced by its dispatcher.

    has_callers: False if nothing will call them that is compiled with the module, and so could use their effects.
    """
    entities = dict(base.entities)
    groups = dict(base.attribute_groups)
    for dispatch in dispatches:
        current = _current_name(hot, dispatch.name, entities)
        effects = hot.module.effects[dispatch.name] if has_callers else CallEffects()
        new_entities = _dispatcher(entities[current], current, hot, dispatch, effects)
        entities.update({entity.name: entity for entity in new_entities})
    for dispatch in dispatches:
        for entity in _runtime_declarations(dispatch.runtime):
            entities.setdefault(entity.name, entity)
    return replace(base, entities=entities, attribute_groups=groups)


def _current_name(hot: HotModule, name: str, entities: Mapping[str, Entity]) -> str:
    """Return a function's name in the module: a hot static function may have been promoted (shared_name)."""
    return name if name in entities else f"{name}.{hot.tag}"


def add_single_bodies(hot: HotModule, base: ModuleText, labels_used: Mapping[str, Sequence[str]]) -> ModuleText:
    """Add the version symbols that other versions call, as aliases, for functions with a single body.

    labels_used: function -> labels of its versions that some version's module refers to.
    """
    entities = dict(base.entities)
    for name, labels in labels_used.items():
        current = _current_name(hot, name, entities)
        signature = parse_signature(entities[current])
        kind = "weak_odr hidden" if hot.module.linkage(name) in MERGEABLE else "hidden"
        for label in labels:
            symbol = version_symbol(hot, name, label)
            text = f"@{quote(symbol)} = {kind} alias {function_type(signature)}, ptr @{quote(current)}"
            entities[symbol] = Entity(symbol, "alias", text)
    return replace(base, entities=entities)


def add_version_aliases(hot: HotModule, text: str, name: str, label: str, others: Sequence[str]) -> str:
    """Add aliases of a version to the IR of its module, for the versions `others` that share it or were dropped for it.

    name: of the function. label: of the version that the module defines.
    """
    if not others:
        return text
    module = parse_module(text)
    symbol = version_symbol(hot, name, label)
    kind = "weak_odr hidden" if hot.module.linkage(name) in MERGEABLE else "hidden"
    value_type = function_type(parse_signature(module.entities[symbol]))
    entities = dict(module.entities)
    for other in others:
        alias = version_symbol(hot, name, other)
        entities[alias] = Entity(alias, "alias", f"@{quote(alias)} = {kind} alias {value_type}, ptr @{quote(symbol)}")
    return str(replace(module, entities=entities))


def _dispatcher(entity: Entity, name: str, hot: HotModule, dispatch: Dispatch, effects: CallEffects) -> list[Entity]:
    signature = parse_signature(entity)
    comdat = _comdat_of(entity)
    in_comdat = f", {comdat}" if comdat else ""
    attributes = _call_attributes(hot, dispatch.name)
    part = {suffix: f"{name}.{suffix}" for suffix in ("slow", "versions", "runs", "function", "name")}
    at = {suffix: f"@{quote(symbol)}" for suffix, symbol in part.items()}
    count = len(dispatch.targets) + 1
    shown = dispatch.name.encode()
    pointers = ", ".join(f"ptr @{quote(symbol)}" for symbol in dispatch.targets)
    variables = {
        "name": f'private unnamed_addr constant [{len(shown) + 1} x i8] c"{escape(dispatch.name)}\\00"',
        "versions": f"internal constant [{count} x ptr] [ptr {at['slow']}, {pointers}], align 8",
        "runs": f"internal global [{count} x i64] zeroinitializer, align 8",
        "function": f"internal global {{ ptr, ptr, ptr, ptr }} "
        f"{{ ptr {at['name']}, ptr {at['versions']}, ptr {at['runs']}, ptr null }}, align 8",
    }
    head = _header(signature, with_effects(entity.header, effects))
    slow_head = _slow_header(signature, part["slow"])
    fast_head = f"{head} noinline {_call_attributes(hot, dispatch.name, effects.call)}{_tail(signature, comdat)}"
    slow_head = f"{slow_head} noinline cold {attributes}{' ' + comdat if comdat else ''}"
    slow = _slow(signature, at, dispatch.runtime)
    fast = _fast(signature, at, dispatch.runtime) if dispatch.runtime.has_rseq else slow
    defined = [
        *(Entity(part[s], "variable", f"{at[s]} = {_with_comdat(text, in_comdat)}") for s, text in variables.items()),
        Entity(name, "define", f"{fast_head} {{\n{fast}"),
        Entity(part["slow"], "define", f"{slow_head} {{\n{slow}"),
    ]
    declared = [_version_declaration(entity, symbol) for symbol in dict.fromkeys(dispatch.targets)]
    return defined + declared


def _version_declaration(entity: Entity, symbol: str) -> Entity:
    return declaration(entity, symbol, "hidden")


def _with_comdat(text: str, in_comdat: str) -> str:
    """Place `, comdat($f)` before the alignment (LangRef: section, partition, comdat, align)."""
    head, comma, align = text.rpartition(", align ")
    return f"{head}{in_comdat}{comma}{align}" if comma else text + in_comdat


def _comdat_of(entity: Entity) -> str:
    match = re.search(r' comdat(?:\((\$(?:"[^"]*"|[^)]*))\))?(?= |$)', entity.header)
    if not match:
        return ""
    return f"comdat({match[1] or '$' + quote(entity.name)})"


def _call_attributes(hot: HotModule, name: str, more: Sequence[str] = ()) -> str:
    text = hot.attributes(name)
    of_calls = [a for a in ATTRIBUTE.findall(text) if _CALL_ATTRIBUTES.match(a)]
    return " ".join([*dict.fromkeys([*of_calls, *more]), cpu_attributes_of(text)]).strip()


def _header(signature: Signature, first: str) -> str:
    """Return the line `define ... @f(...) ... {` up to the closing parenthesis and unnamed_addr."""
    head = first[: find_closing(first, own_symbol(first).end())]
    unnamed = re.match(r"(?:local_)?unnamed_addr", signature.after)
    return f"{head} {unnamed[0]}" if unnamed else head


def _slow_header(signature: Signature, symbol: str) -> str:
    words = [w for w in ("define internal", signature.convention, signature.returns) if w]
    return f"{' '.join(words)} @{quote(symbol)}({signature.parameters})"


def _tail(signature: Signature, comdat: str) -> str:
    """Return the text after the attributes: section, comdat and alignment, but no personality."""
    section = re.search(r'section "[^"]*"', signature.after)
    align = re.search(r"(?<!\w)align \d+", re.sub(r'"[^"]*"', "", signature.after))
    return "".join(f" {part}" for part in (section and section[0], comdat, align and align[0]) if part)


def _jump(signature: Signature, target: str) -> str:
    words = [w for w in (signature.convention, signature.returns) if w]
    call = f"musttail call {' '.join(words)} {target}({signature.parameters})"
    if signature.return_type == "void":
        return f"  {call}\n  ret void\n"
    return f"  %mavcg.result = {call}\n  ret {signature.return_type} %mavcg.result\n"


def _fast(signature: Signature, at: Mapping[str, str], runtime: RuntimeNames) -> str:
    table, offset = f"@{quote(runtime.core_of_cpu)}", f"@{quote(runtime.rseq_offset)}"
    size = runtime.table_size
    # struct rseq (linux/rseq.h): cpu_id is the second 32-bit field; negative, so large, in an unregistered thread.
    return f"""mavcg.entry:
  %mavcg.offset = load atomic i64, ptr {offset} monotonic, align 8
  %mavcg.none = icmp eq i64 %mavcg.offset, 0
  br i1 %mavcg.none, label %mavcg.ask, label %mavcg.rseq
mavcg.rseq:
  %mavcg.thread = call ptr @llvm.thread.pointer.p0()
  %mavcg.area = getelementptr i8, ptr %mavcg.thread, i64 %mavcg.offset
  %mavcg.field = getelementptr i8, ptr %mavcg.area, i64 4
  %mavcg.cpu = load volatile i32, ptr %mavcg.field, align 4
  %mavcg.inside = icmp ult i32 %mavcg.cpu, {size}
  br i1 %mavcg.inside, label %mavcg.known, label %mavcg.ask
mavcg.known:
  %mavcg.index = zext i32 %mavcg.cpu to i64
  %mavcg.entry_of_cpu = getelementptr i8, ptr {table}, i64 %mavcg.index
  %mavcg.core = load atomic i8, ptr %mavcg.entry_of_cpu monotonic, align 1
  %mavcg.core_index = zext i8 %mavcg.core to i64
  %mavcg.slot = getelementptr ptr, ptr {at["versions"]}, i64 %mavcg.core_index
  %mavcg.version = load ptr, ptr %mavcg.slot, align 8
  br label %mavcg.go
mavcg.ask:
  br label %mavcg.go
mavcg.go:
  %mavcg.target = phi ptr [ %mavcg.version, %mavcg.known ], [ {at["slow"]}, %mavcg.ask ]
{_jump(signature, "%mavcg.target")}}}"""


def _slow(signature: Signature, at: Mapping[str, str], runtime: RuntimeNames) -> str:
    return f"""mavcg.entry:
  %mavcg.target = call ptr @{quote(runtime.select)}(ptr {at["function"]})
{_jump(signature, "%mavcg.target")}}}"""


def _runtime_declarations(runtime: RuntimeNames) -> list[Entity]:
    table, offset, select = (quote(n) for n in (runtime.core_of_cpu, runtime.rseq_offset, runtime.select))
    entities = [Entity(runtime.select, "declare", f"declare hidden ptr @{select}(ptr)")]
    if not runtime.has_rseq:
        return entities
    return [
        Entity(runtime.rseq_offset, "variable", f"@{offset} = external hidden global i64, align 8"),
        Entity(runtime.core_of_cpu, "variable", f"@{table} = external hidden global [{runtime.table_size} x i8]"),
        *entities,
        Entity("llvm.thread.pointer.p0", "declare", "declare ptr @llvm.thread.pointer.p0()"),
    ]

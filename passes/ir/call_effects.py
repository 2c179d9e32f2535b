"""Infer what a call of each function may do, and state it where callers see a dispatcher or a copy of the function.

    define float @taper(float %x) #0 { ... }          its body shows that a call reads no memory and does not unwind
    define float @taper(float %x) noinline memory(none) nounwind ... { jump to a version }       its dispatcher says so

LLVM hoists, merges and removes calls by such attributes. It infers them from a body, but not from a dispatcher, which
jumps to a pointer, nor from an `available_externally` copy, in whose place the linker may take another body (LangRef,
"Linkage Types"; LLVM's FunctionAttrs.cpp). All versions are made from the body and compute the same bits, so that its
attributes hold for each of them. Attributes of the result (nonnull, range, noundef) are not stated: where a program
leaves a value undefined, versions may return different ones.

What the dispatcher itself reads, the processor's number and its tables, is left out of memory(...), because no caller
can tell which version ran.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mavcg.passes.ir.grammar import attributes_start, find_closing, own_symbol, split_commas, split_type
from mavcg.passes.ir.module_objects import value_name

if TYPE_CHECKING:
    from llvmlite.binding import ValueRef

_OF_CALLS = re.compile(r"memory\(.*\)|nounwind|willreturn|nosync|nofree")
_OF_ARGUMENTS = re.compile(r"captures\(.*\)|readnone|readonly|writeonly")
ATTRIBUTE = re.compile(r'"[^"]*"(?:="[^"]*")?|[a-z_]+(?:\([^)]*\)|=\d+)?')
_STATED = re.compile(r"(?<!\S)(?:captures\([^)]*\)|readnone|readonly|writeonly)(?: |$)")


@dataclass(frozen=True)
class CallEffects:
    """Attributes about what a call may do: of the function, and of each of its arguments in order."""

    call: tuple[str, ...] = ()
    arguments: tuple[tuple[str, ...], ...] = ()


def infer_effects(text: str) -> Mapping[str, CallEffects]:
    """Return function that a module defines -> its effects, inferred by LLVM after its variables are in registers.

    text: of the module, without CPU attributes: passes need a target, and that of this machine serves every module.
    LLVM infers nothing of functions that the linker may replace.
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    builder = llvm.create_pass_builder(
        llvm.Target.from_default_triple().create_target_machine(), llvm.create_pipeline_tuning_options(speed_level=1)
    )
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_post_order_function_attributes_pass()
    module = llvm.parse_assembly(text, llvm.create_context())
    passes.run(module, builder)
    return {value_name(function): _effects_of(function) for function in module.functions if not function.is_declaration}


def _effects_of(function: "ValueRef") -> CallEffects:
    return CallEffects(
        _select_attributes(function, _OF_CALLS),
        tuple(_select_attributes(argument, _OF_ARGUMENTS) for argument in function.arguments),
    )


def _select_attributes(value: "ValueRef", kinds: re.Pattern[str]) -> tuple[str, ...]:
    words = ATTRIBUTE.findall(b" ".join(value.attributes).decode())
    return tuple(word for word in words if kinds.fullmatch(word))


def with_effects(header: str, effects: CallEffects) -> str:
    """Return the first line of a function's declaration or definition with these attributes.

    define float @f(ptr noundef %a) #0 {     ->     define float @f(ptr readonly noundef %a) nounwind #0 {
    """
    start = own_symbol(header).end()
    end = find_closing(header, start)
    parameters = split_commas(header[start + 1 : end - 1])
    if len(parameters) == len(effects.arguments):
        parameters = [_argument(text, words) for text, words in zip(parameters, effects.arguments, strict=True)]
    header = f"{header[: start + 1]}{', '.join(parameters)}{header[end - 1 :]}"
    at = attributes_start(header)
    return "".join([header[:at], *(f" {word}" for word in effects.call), header[at:]])


def _argument(parameter: str, words: tuple[str, ...]) -> str:
    kind, rest = split_type(parameter)
    if not words or '"' in rest:  # quoted texts may hold any word
        return parameter
    return " ".join(part for part in (kind, *words, _STATED.sub("", rest).strip()) if part)

"""Finds the reason, if any, why a function cannot be versioned, and OpenMP regions; refused functions stay unchanged.

OpenMP's outlined functions are those whose addresses are passed to the runtime library:

    define void @f(...) { ... call void (ptr, i32, ptr, ...) @__kmpc_fork_call(..., ptr @f.omp_outlined, ...) }

Each thread of a team calls the outlined function, so that a dispatcher in its place chooses by the thread's core.
Source: clang/lib/CodeGen/CGOpenMPRuntime.cpp.
"""

import re

from mavcg.hardware.core import GENERIC
from mavcg.passes.ir.attributes import base_features, features_of, has_attribute
from mavcg.passes.ir.clone import make_version
from mavcg.passes.ir.hot_module import HotModule
from mavcg.passes.ir.module_objects import FunctionObject
from mavcg.passes.ir.module_text import ModuleText
from mavcg.passes.ir.shared import alias_target, why_not_clonable

_OUTLINED = re.compile(r"\.?omp_outlined\b")


def outlined_regions(module: ModuleText, function: str) -> tuple[str, ...]:
    """Return the outlined functions of the OpenMP regions in a function, nested regions included."""
    if not any(map(_OUTLINED.search, module.entities)):
        return ()
    regions: dict[str, None] = {}
    pending = [function]
    while pending:
        caller = module.objects.functions.get(pending.pop())
        for name in [use.name for use in caller.body.uses] if caller else []:
            outlined = _OUTLINED.search(name) and module.entities[name].kind == "define" and module.is_local(name)
            if outlined and name not in regions:
                regions[name] = None
                pending.append(name)
    return tuple(regions)


def why_foreign(module: ModuleText, function: str) -> str | None:
    """Return the reason why a function cannot be versioned if the program links gcc's OpenMP library, or None."""
    if module.entities[function].kind != "define":
        return None
    version = make_version(HotModule(module, frozenset({function}), ""), function, GENERIC)
    if not any(name.startswith("__kmpc_") for name in version.needs):
        return None
    return "it has an OpenMP region, whose code clang makes for LLVM's OpenMP library, and the program links gcc's"


# The widest vector that the x86-64 calling convention passes in one register, by base feature. A version with more
# features would expect its arguments in other registers than its caller.
_X86_VECTOR_BITS = (("+avx512f", 512), ("+avx", 256))
_AS_THE_VERSION_SAYS = "passed as the version's features say; compile the program for wider vectors"


def why_not(module: ModuleText, name: str, arch: str) -> str | None:
    """Return the reason why a function cannot get versions, or None if it can."""
    entity = module.entities.get(name)
    if entity is None or entity.kind == "declare":
        return "it has no body in this input"
    if entity.kind != "define":
        return f"it is {'an' if entity.kind[0] in 'ai' else 'a'} {entity.kind}, not a function with a body"
    if module.linkage(name) == "available_externally":
        return "its body here is a copy for inlining only; the function itself lives in another file"
    return (
        _why_not_forwarded(module.objects.functions[name], arch)
        or why_not_clonable(module, name)
        or _why_not_vectors(module, name, arch)
    )


def _why_not_forwarded(function: FunctionObject, arch: str) -> str | None:
    if function.is_variadic:
        return "it is variadic: its arguments cannot be forwarded"
    for attribute, reason in (
        ("naked", "it is naked: its body is assembly that owns the frame"),
        ("returns_twice", "it returns twice, as setjmp does, and its frame must be its caller's"),
        ("presplitcoroutine", "it is a coroutine before its split"),
    ):
        if has_attribute(function.attributes, attribute):
            return reason
    for attribute in ("inalloca", "preallocated"):
        if has_attribute(function.argument_attributes, attribute):
            return f"it takes an {attribute} argument, which lives in its caller's frame"
    if arch == "aarch64" and has_attribute(function.argument_attributes, "byval"):
        return "it takes a byval argument, which LLVM cannot forward in a tail call on AArch64"
    return None


def _why_not_vectors(module: ModuleText, name: str, arch: str) -> str | None:
    if arch != "x86_64" or not module.names_vectors:
        return None
    functions = module.objects.functions
    base = base_features(features_of(functions[name].attributes), arch)
    width = next((bits for feature, bits in _X86_VECTOR_BITS if feature in base), 128)
    if functions[name].vector_bits > width:
        return f"it passes a {functions[name].vector_bits}-bit vector, {_AS_THE_VERSION_SAYS}"
    copied = frozenset(make_version(HotModule(module, frozenset({name}), ""), name, "version").origins.values())
    for call in (call for origin in sorted(copied) for call in functions[origin].calls):
        callee = alias_target(module, module.entities[call.callee]).name if call.callee else None
        if call.vector_bits > width and callee not in copied and not (callee or "").startswith("llvm."):
            callee = callee or "a function by its address"
            return f"it calls {callee} with a {call.vector_bits}-bit vector, {_AS_THE_VERSION_SAYS}"
    return None

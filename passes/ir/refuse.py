"""Functions that cannot be versioned, each with the reason; they are left exactly as they were."""

import re

from mavcg.passes.ir.attributes import base_features, features_of, has_attribute
from mavcg.passes.ir.clonable import why_not_clonable
from mavcg.passes.ir.clone import make_version
from mavcg.passes.ir.hot_module import HotModule, function_attributes
from mavcg.passes.ir.module_text import NAME, ModuleText, linkage, unquote
from mavcg.passes.ir.signature import Signature, parse_signature
from mavcg.passes.ir.types import vector_bits

# The widest vector that the x86-64 calling convention passes in one register, by base feature. A version with
# more features would look for its arguments in other registers than its caller put them.
_X86_VECTOR_BITS = (("+avx512f", 512), ("+avx", 256))
_AS_THE_VERSION_SAYS = "passed as the version's features say; compile the program for wider vectors"
# A vector behind these is in memory; a call of inline assembly has a convention of its own.
_MEMORY = re.compile(r"\b(?:byval|sret|elementtype)\([^()]*\)")
_CALL = re.compile(rf"\b(?:call|invoke) (?!.*\basm ).*?(?:%{NAME}|@({NAME}))\(")


def why_not(module: ModuleText, name: str, arch: str) -> str | None:
    """The reason why a function cannot get versions, or None when it can."""
    entity = module.entities.get(name)
    if entity is None or entity.kind == "declare":
        return "it has no body in this input"
    if entity.kind != "define":
        return f"it is {'an' if entity.kind[0] in 'ai' else 'a'} {entity.kind}, not a function with a body"
    if linkage(entity) == "available_externally":
        return "its body here is a copy for inlining only; the function itself lives in another file"
    signature = parse_signature(entity)
    attributes = function_attributes(module, entity)
    return (
        _why_not_forwarded(signature, attributes, arch)
        or why_not_clonable(module, entity)
        or _why_not_vectors(module, name, arch)
    )


def _why_not_forwarded(signature: Signature, attributes: str, arch: str) -> str | None:
    if signature.variadic:
        return "it is variadic: its arguments cannot be forwarded"
    for attribute, reason in (
        ("naked", "it is naked: its body is assembly that owns the frame"),
        ("returns_twice", "it returns twice, as setjmp does, and its frame must be its caller's"),
        ("presplitcoroutine", "it is a coroutine before its split"),
    ):
        if has_attribute(attributes, attribute):
            return reason
    for attribute in ("inalloca", "preallocated"):
        if has_attribute(signature.parameters, attribute):
            return f"it takes an {attribute} argument, which lives in its caller's frame"
    if arch == "aarch64" and has_attribute(signature.parameters, "byval"):
        return "it takes a byval argument, which LLVM cannot forward in a tail call on AArch64"
    return None


def _why_not_vectors(module: ModuleText, name: str, arch: str) -> str | None:
    if arch != "x86_64":
        return None
    entity = module.entities[name]
    base = base_features(features_of(function_attributes(module, entity)), arch)
    width = next((bits for feature, bits in _X86_VECTOR_BITS if feature in base), 128)
    signature = parse_signature(entity)
    needed = vector_bits(_MEMORY.sub("", f"{signature.returns} {signature.parameters}"))
    if needed > width:
        return f"it passes a {needed}-bit vector, {_AS_THE_VERSION_SAYS}"
    if not any(vector_bits(e.body) > width for e in module.entities.values() if e.kind == "define"):
        return None
    version = make_version(HotModule(module, frozenset({name}), ""), name, "version").module
    defined = frozenset(version.definitions())
    for line in "\n".join(version.entities[symbol].body for symbol in sorted(defined)).split("\n"):
        call = _CALL.search(line)
        passed = vector_bits(_MEMORY.sub("", line)) if call and unquote(call[1] or "") not in defined else 0
        if call and passed > width and not (call[1] or "").startswith("llvm."):
            callee = unquote(call[1]) if call[1] else "a function by its address"
            return f"it calls {callee} with a {passed}-bit vector, {_AS_THE_VERSION_SAYS}"
    return None

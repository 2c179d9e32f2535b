"""Mark the functions of IR for branch protection, as clang's -mbranch-protection and -fcf-protection do for C.

AArch64: every function that can be called through a pointer starts with a landing pad (BTI), and functions that spill
the return address sign it (PAC). x86-64: the same functions start with endbr64 (IBT), for which the module's flags
suffice; the shadow stack (SHSTK) needs no code. All these instructions are no-ops on processors without the extension.
"""

import re

from mavcg.passes.ir.grammar import find_closing, own_symbol

_FUNCTION_ATTRIBUTES = {
    "aarch64": '"branch-target-enforcement" "guarded-control-stack" "sign-return-address"="non-leaf" '
    '"sign-return-address-key"="a_key"',
    "x86_64": "",
}
# Behaviour 8: linked modules get the minimum of their values (LangRef, "Module Flags Metadata").
_FLAGS = {
    "aarch64": {"branch-target-enforcement": 2, "guarded-control-stack": 2, "sign-return-address": 2},
    "x86_64": {"cf-protection-return": 1, "cf-protection-branch": 1},
}
_DEFINITION = re.compile(r"^define .*", re.MULTILINE)
_UNNAMED = re.compile(r"(?: (?:local_)?unnamed_addr)?(?: addrspace\(\d+\))?")
_NUMBERED = re.compile(r"^!(\d+) = ", re.MULTILINE)
_MODULE_FLAGS = re.compile(r"^!llvm\.module\.flags = !\{(.*)\}$", re.MULTILINE)


def protect(text: str, arch: str) -> str:
    """Add branch protection to every function that IR text defines.

    define void @f() {                 define void @f() "branch-target-enforcement" ... {
    ...                          ->    !llvm.module.flags = !{!0}
                                       !0 = !{i32 8, !"branch-target-enforcement", i32 2}

    arch: "aarch64" or "x86_64". A module with any of the flags was compiled with a protection of its author's choice,
    and is returned unchanged.
    """
    flags = _FLAGS[arch]
    if any(f'!"{name}"' in text for name in flags):
        return text
    return _with_flags(_with_attributes(text, _FUNCTION_ATTRIBUTES[arch]), flags)


def _with_attributes(text: str, attributes: str) -> str:
    if not attributes:
        return text
    parts, done = [], 0
    for match in _DEFINITION.finditer(text):
        after = _UNNAMED.match(text, find_closing(text, match.start() + own_symbol(match[0]).end()))
        assert after  # it may match nothing at all
        parts += [text[done : after.end()], f" {attributes}"]
        done = after.end()
    return "".join([*parts, text[done:]])


def _with_flags(text: str, flags: dict[str, int]) -> str:
    first = max((int(number) for number in _NUMBERED.findall(text)), default=-1) + 1
    names = ", ".join(f"!{first + i}" for i in range(len(flags)))
    nodes = "".join(
        f'!{number} = !{{i32 8, !"{name}", i32 {value}}}\n' for number, (name, value) in enumerate(flags.items(), first)
    )
    head = "" if text.endswith("\n") else "\n"
    present = _MODULE_FLAGS.search(text)
    if not present:
        return f"{text}{head}!llvm.module.flags = !{{{names}}}\n{nodes}"
    listed = ", ".join(part for part in (present[1], names) if part)
    return f"{text[: present.start()]}!llvm.module.flags = !{{{listed}}}{text[present.end() :]}{head}{nodes}"

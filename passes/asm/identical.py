"""Whether two versions came out as the same machine code: their assembly, but for the names of the versions."""

import hashlib
import re
from collections.abc import Hashable, Mapping
from typing import TypeVar

# ELF says what is a function; in Mach-O, names of the program begin with an underscore.
_ENTRY_ALIGNMENT = re.compile(r'\t\.p2align\t\d+\n(?=\t\.type\t[^\n]*[@%]function\n|"?_[^\n]*:)')
# Clang's own comments: a whole line, or behind code with a blank after the sign (AArch64's #16 is an operand; Apple's
# assembler takes ; and ##).
_COMMENT = re.compile(r"""^\s*(?:#|//|;).*$|\s+(?:##? |// |; )[^"\n]*$""")
_INLINE_ASM = re.compile(r"\s*(?:##?|//|;)\s*(?:(NO_APP|InlineAsm End)|APP|InlineAsm Start)$")
_NOT_CODE = re.compile(r"\s*\.(?:file|ident)\b")

_Key = TypeVar("_Key", bound=Hashable)


def without_label(asm: str, label: str) -> str:
    """The assembly with every symbol suffix `.label` made neutral, without comments and the alignment of function
    entries; equal texts assemble to equal code.

    "f.cortex-a55":            // @f     f.*:
      bl "helper.cortex-a55"         ->    bl helper.*
    """
    neutral = re.sub(rf"\.{re.escape(label)}(?![-\w$])", ".*", asm)
    neutral = re.sub(r'"([^"\s]*\.\*[^"\s]*)"', r"\1", neutral)  # LLVM quotes a name with a hyphen in it
    lines = []
    in_inline_asm = False  # whose text is the program's own, comment signs too
    for line in neutral.split("\n"):
        if edge := _INLINE_ASM.match(line):
            in_inline_asm = edge[1] is None
        kept = line.rstrip() if in_inline_asm else _COMMENT.sub("", line).rstrip()
        if kept and not _NOT_CODE.match(kept):
            lines.append(kept)
    return _ENTRY_ALIGNMENT.sub("", "\n".join(lines))


def names_symbol(asm: str, symbol: str) -> bool:
    """Whether assembly refers to a symbol."""
    return re.search(rf"(?<![-\w.$]){re.escape(symbol)}(?![-\w.$])", asm) is not None


def refined(keys: Mapping[_Key, str], calls: Mapping[_Key, frozenset[_Key]]) -> dict[_Key, str]:
    """Keys that are equal only where the bodies that are called have equal keys too.

    A body that is equal but for which version of another function it calls may be shared only by those cores for which
    the called versions are shared: otherwise a core would run the callee's version of another core. The classes of
    equal keys are split until nothing more splits.
    """
    current = dict(keys)
    while True:
        finer = {k: _digest(current[k], *sorted(current[callee] for callee in calls.get(k, ()))) for k in current}
        if len(set(finer.values())) == len(set(current.values())):
            return current
        current = finer


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()

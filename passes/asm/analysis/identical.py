"""Compares two versions of a function by their assembly text without symbol suffixes: equal texts give equal code."""

import hashlib
import re
from collections.abc import Hashable, Mapping
from typing import TypeVar

# In ELF a .type directive marks a function; in Mach-O, names of the program begin with an underscore.
_ENTRY_ALIGNMENT = re.compile(r'\t\.p2align\t\d+\n(?=\t\.type\t[^\n]*[@%]function\n|"?_[^\n]*:)')
# Clang's own comments: a whole line, or behind code with a blank after the sign (AArch64's #16 is an operand; Apple's
# assembler takes ; and ##).
_COMMENT = re.compile(r"""^\s*(?:#|//|;).*$|\s+(?:##? |// |; )[^"\n]*$""")
_INLINE_ASM = re.compile(r"\s*(?:##?|//|;)\s*(?:(NO_APP|InlineAsm End)|APP|InlineAsm Start)$")
_NOT_CODE = re.compile(r"\s*\.(?:file|ident)\b")

_Key = TypeVar("_Key", bound=Hashable)


def without_label(asm: str, label: str) -> str:
    """Replace every symbol suffix `.label` by `.*`, and remove comments and the alignment of function entries.

    "f.cortex-a55":            // @f     f.*:
      bl "helper.cortex-a55"         ->    bl helper.*
    """
    neutral = re.sub(rf"\.{re.escape(label)}(?![-\w$])", ".*", asm)
    neutral = re.sub(r'"([^"\s]*\.\*[^"\s]*)"', r"\1", neutral)  # LLVM quotes a name with a hyphen in it
    lines = []
    in_inline_asm = False  # its text is the program's own, comment signs included
    for line in neutral.split("\n"):
        if edge := _INLINE_ASM.match(line):
            in_inline_asm = edge[1] is None
        code = line.rstrip() if in_inline_asm else _COMMENT.sub("", line).rstrip()
        if code and not _NOT_CODE.match(code):
            lines.append(code)
    return _ENTRY_ALIGNMENT.sub("", "\n".join(lines))


def names_symbol(asm: str, symbol: str) -> bool:
    """True if assembly refers to a symbol."""
    whole_word = rf"(?<![-\w.$]){re.escape(symbol)}(?![-\w.$])"
    return symbol in asm and re.search(whole_word, asm) is not None  # the first takes a hundredth of the second's time


def refine_keys(keys: Mapping[_Key, str], calls: Mapping[_Key, frozenset[_Key]]) -> dict[_Key, str]:
    """Refine keys until two versions have equal keys only if the versions that they call have equal keys too.

    Cores may share a version only if they also share the versions that it calls: otherwise a core would run the callee
    of another core. Algorithm: partition refinement; the classes of equal keys are split until none splits further.
    keys: version -> digest of its text. calls: version -> versions that it calls.
    """
    current = dict(keys)
    while True:
        finer = {k: _digest(current[k], *sorted(current[callee] for callee in calls.get(k, ()))) for k in current}
        if len(set(finer.values())) == len(set(current.values())):
            return current
        current = finer


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()

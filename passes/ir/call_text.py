"""Read and write call instructions of IR text: the one place that knows where a call's parts begin and end.

llvmlite's objects have a call's operands, but no flags, attributes or bundles, and cannot be changed; several kinds of
callee (dso_local_equivalent, no_cfi) have no kind of value there. Source: LangRef, "call", "invoke", "callbr".
"""

import re
from dataclasses import dataclass

from mavcg.passes.ir.symbol_names import NAME, unquote
from mavcg.passes.ir.types import find_closing, split_commas, split_type, type_start

FLAG = r"(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc)"
VALUE = rf"%{NAME}"
_HEAD = re.compile(
    rf"(?P<indent>\s*)(?:(?P<result>{VALUE}) = )?(?P<tail>(?:tail|musttail|notail) )?(?P<opcode>call|invoke|callbr) "
    rf"(?P<flags>(?:{FLAG} )*)"
)
_SYMBOL_CALLEE = re.compile(rf"@({NAME})")
# A value, a symbol (of which a constant may be made), inline assembly with its two strings, a constant expression up to
# its parenthesis, or a constant without operands.
_CALLEE = re.compile(
    rf'{VALUE}|(?:dso_local_equivalent |no_cfi )?@{NAME}|asm (?:\w+ )*"[^"]*", "[^"]*"'
    r"|(?P<expression>[a-z]\w*(?:\([^()]*\))?(?: [a-z]\w*(?:\([^()]*\))?)* (?=\())|[a-z]\w*"
)


@dataclass(frozen=True)
class CallText:
    """The parts of a call's text; `str()` joins them.

    result: such as "%r"; "" for none. head: "tail call", "invoke" and the like. flags: fast-math flags. before: calling
    convention, attributes of the result and address space. type: of the result, or of the function. callee: a value, a
    symbol with its "@", inline assembly, or a constant. arguments: with types and attributes. after: attributes,
    bundles, destinations and metadata, with the blank before them.
    """

    indent: str
    result: str
    head: str
    flags: tuple[str, ...]
    before: str
    type: str
    callee: str
    arguments: tuple[str, ...]
    after: str

    def __str__(self) -> str:
        words = (self.head, *self.flags, self.before, self.type, f"{self.callee}({', '.join(self.arguments)})")
        result = f"{self.result} = " if self.result else ""
        return f"{self.indent}{result}{' '.join(word for word in words if word)}{self.after}"

    @property
    def symbol(self) -> str:
        """The function that is called, by its name; "" if it is called through a value or is inline assembly."""
        match = _SYMBOL_CALLEE.fullmatch(self.callee)
        return unquote(match[1]) if match else ""

    @property
    def return_type(self) -> str:
        """The type of the result."""
        return split_type(self.type)[0].partition(" (")[0]


def read_call(line: str) -> CallText | None:
    """Return the parts of a call instruction; None for every other line of a function's body.

    line: as LLVM prints it. The second line of an invoke or callbr, with the destinations, may follow or be left out.
    """
    head = _HEAD.match(line)
    if not head:
        return None
    rest = line[head.end() :]
    start = type_start(rest)
    type_text, after_type = split_type(rest[start:])
    callee = _CALLEE.match(after_type)
    if not callee:
        raise ValueError(f"not a call as LLVM prints it: {line[:80]}")
    end = find_closing(after_type, callee.end()) if callee["expression"] else callee.end()
    closing = find_closing(after_type, end)
    return CallText(
        indent=head["indent"],
        result=head["result"] or "",
        head=(head["tail"] or "") + head["opcode"],
        flags=tuple(head["flags"].split()),
        before=rest[:start].rstrip(),
        type=type_text,
        callee=after_type[:end],
        arguments=tuple(split_commas(after_type[end + 1 : closing - 1])),
        after=after_type[closing:],
    )


def calls_in(text: str, mention: str) -> list[CallText]:
    """Return the calls among the lines of a text that contain `mention`, such as a part of the callee's name."""
    calls = (read_call(line) for line in text.split("\n") if mention in line) if mention in text else ()
    return [call for call in calls if call]

"""Make floating-point arithmetic explicit, so that every version of a function rounds alike.

Two decisions that LLVM leaves to the target are made here once for all versions: whether llvm.fmuladd is fused, and
what fast-math flags allow. See docs/design/one-answer.md.

Call instructions are read and written as text: llvmlite's objects have a call's operands, but no flags, attributes or
bundles, and cannot be changed; several kinds of callee (dso_local_equivalent, no_cfi) have no kind of value there.
Source: LangRef, "call", "invoke", "callbr".
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

from mavcg.passes.ir.grammar import (
    NAME,
    find_closing,
    mangle_type,
    own_symbol,
    scalar_of,
    split_commas,
    split_type,
    type_start,
    unquote,
)

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


_OPERATION = (
    r"(?:(?:tail|musttail|notail) )?call|fadd|fsub|fmul|fdiv|frem|fneg|fcmp|select|phi|fptrunc|fpext|uitofp|sitofp"
)
_FLAGGED = re.compile(rf"^(\s*{VALUE} = (?:{_OPERATION}))((?: {FLAG})+)(?= )", re.MULTILINE)
_FAST_ATTRIBUTES = re.compile(
    r' ?"(?:unsafe-fp-math|no-infs-fp-math|no-nans-fp-math|no-signed-zeros-fp-math|approx-func-fp-math)"="[^"]*"'
)
_FMULADD = re.compile(r"llvm\.(?P<strict>experimental\.constrained\.)?fmuladd\.\w+")
_MADE = re.compile(r"llvm\.(?:experimental\.constrained\.)?(?:fma|fmul|fadd)\.\w+")
_ATTACHED = re.compile(r"![-\w.$]+ !\d+")
_ARGUMENT_ATTRIBUTE = re.compile(r"(?:noundef|inreg|returned|noext|nofpclass\([^)]*\)) ")
_PRODUCT = re.compile(rf"^\s*({VALUE}) = fmul((?: {FLAG})+) (.*)$")
_SUM = re.compile(rf"^(\s*)({VALUE}) = (fadd|fsub)((?: {FLAG})+) (.*)$")
_RECORD = re.compile(r"^\s*#dbg_.*$", re.MULTILINE)
_NARROW = re.compile(r"(?<![%@$!#.\w-])(?:half|bfloat)\b(?![-.:$])")


def explicit_fmuladd(text: str, fused: Collection[str]) -> str:
    """Rewrite each llvm.fmuladd as llvm.fma if its scalar type is in `fused`, else as fmul and fadd.

    %r = call float @llvm.fmuladd.f32(float %a, float %b, float %c)
      ->  %r = call float @llvm.fma.f32(float %a, float %b, float %c)              fused
      ->  %r.mavcg.mul = fmul float %a, %b ; %r = fadd float %r.mavcg.mul, %c      not
    By LangRef the code generator may choose either form of fmuladd, so that versions would differ. In a program that
    sets the rounding mode, llvm.experimental.constrained.fmuladd becomes constrained.fma, or constrained.fmul and
    constrained.fadd.
    """
    if "fmuladd." not in text:
        return text
    return "\n".join(_explicit_line(line, fused) if "fmuladd." in line else line for line in text.split("\n"))


def _explicit_line(line: str, fused: Collection[str]) -> str:
    call = read_call(line)
    match = _FMULADD.fullmatch(call.symbol) if call else None
    if not call or not match:
        return line
    type_text, indent, result = call.return_type, call.indent, call.result
    if scalar_of(type_text) in fused:
        return str(replace(call, callee=call.callee.replace("fmuladd.", "fma.")))
    a, b, c = (_value(item) for item in call.arguments[:3])
    product = _value_beside(result, "mul")
    if match["strict"]:
        modes = ", ".join(call.arguments[3:])

        def step(operation: str, left: str, right: str) -> str:
            name = f"@llvm.experimental.constrained.{operation}.{mangle_type(type_text)}"
            return f"call {type_text} {name}({type_text} {left}, {type_text} {right}, {modes}){call.after}"

        return f"{indent}{product} = {step('fmul', a, b)}\n{indent}{result} = {step('fadd', product, c)}"
    metadata = "".join(f", {m}" for m in _ATTACHED.findall(call.after))
    flags = "".join(f"{flag} " for flag in call.flags)
    return (
        f"{indent}{product} = fmul {flags}{type_text} {a}, {b}{metadata}\n"
        f"{indent}{result} = fadd {flags}{type_text} {product}, {c}{metadata}"
    )


def _value(argument: str) -> str:
    """Return the value in an argument such as "float noundef %x", without its type and attributes."""
    value = split_type(argument)[1]
    while attribute := _ARGUMENT_ATTRIBUTE.match(value):
        value = value[attribute.end() :]
    return value


def _value_beside(result: str, part: str) -> str:
    """Return the name of a new value that another one is computed from; no compiler names a value so."""
    return f'%"{unquote(result[1:])}.mavcg.{part}"'


def has_fast_math(body: str) -> bool:
    """True if an instruction has fast-math flags, which allow a pass to change its result.

    Flags: reassociation, contraction, approximation, the sign of a zero (nsz), NaNs and infinities (nnan, ninf).
    """
    return _FLAGGED.search(body) is not None


def has_fmuladd(text: str) -> bool:
    """True if the text calls llvm.fmuladd, which the code generator may fuse or not."""
    return any(call.symbol.startswith("llvm.fmuladd.") for call in calls_in(text, "@llvm.fmuladd."))


def has_ordered_reduction(text: str) -> bool:
    """True if an optimised function sums vectors lane after lane, in the order of the scalar loop."""
    mention = "@llvm.vector.reduce.fadd."
    return any(call.symbol.startswith(mention[1:]) for call in calls_in(text, mention))


def sums_of_products(text: str, types: Collection[str]) -> int:
    """Count the fadd and fsub instructions of these scalar types that have the result of an fmul as an operand."""
    count = 0
    for body in re.findall(r"^define .*?^\}$", text, flags=re.MULTILINE | re.DOTALL):
        products = set(re.findall(rf"^\s*({VALUE}) = fmul ", body, flags=re.MULTILINE))
        for line in re.findall(rf"^\s*{VALUE} = (?:fadd|fsub)(?: {FLAG})* (.*)$", body, flags=re.MULTILINE):
            type_text, operands = split_type(line)
            count += scalar_of(type_text) in types and any(v in products for v in re.findall(VALUE, operands))
    return count


def has_narrow_floats(text: str) -> bool:
    """True if the text has values of type half or bfloat."""
    return _NARROW.search(re.sub(r'"[^"]*"', '""', text)) is not None


def fuse_contracted(text: str, fused: Collection[str]) -> str:
    """Fuse multiplications and additions marked `contract` by a rule that does not depend on the target.

    A product is fused if its only use is an fadd or fsub of the same function, both have the flag contract (or fast),
    and their scalar type is in `fused`.

    %m = fmul contract float %a, %b      ->  %m stays, unused, and dies in code generation
    %r = fadd contract float %m, %c      ->  %r = call float @llvm.fma.f32(float %a, float %b, float %c)
    """
    return re.sub(r"^define .*?^\}$", lambda m: _fuse_in_function(m[0], fused), text, flags=re.MULTILINE | re.DOTALL)


def _fuse_in_function(body: str, fused: Collection[str]) -> str:
    lines = body.split("\n")
    uses = Counter(re.findall(VALUE, _RECORD.sub("", body)))  # a build with -g computes what one without it does
    products: dict[str, tuple[str, str, str]] = {}
    for line in lines:
        match = _PRODUCT.match(line)
        if match and re.search(r"\b(?:fast|contract)\b", match[2]) and uses[match[1]] == 2:
            type_text, operands = split_type(match[3])
            if scalar_of(type_text) not in fused:
                continue
            a, b = split_commas(operands)[:2]
            products[match[1]] = (type_text, a, b)
    return "\n".join(_fuse_sum(line, products) for line in lines)


def _fuse_sum(line: str, products: dict[str, tuple[str, str, str]]) -> str:
    match = _SUM.match(line)
    if not match or not re.search(r"\b(?:fast|contract)\b", match[4]):
        return line
    indent, result, operation, _, typed_operands = match.groups()
    type_text, operands = split_type(typed_operands)
    left, right, *metadata = split_commas(operands)
    trailer = "".join(f", {m}" for m in metadata)
    negated = _value_beside(result, "neg")

    def fma(a: str, b: str, c: str) -> str:
        t = type_text
        return f"{indent}{result} = call {t} @llvm.fma.{mangle_type(t)}({t} {a}, {t} {b}, {t} {c}){trailer}"

    if left in products:  # a*b + c, a*b - c
        _, a, b = products[left]
        if operation == "fadd":
            return fma(a, b, right)
        return f"{indent}{negated} = fneg {type_text} {right}{trailer}\n" + fma(a, b, negated)
    if right in products:  # c + a*b, c - a*b
        _, a, b = products[right]
        if operation == "fadd":
            return fma(a, b, left)
        return f"{indent}{negated} = fneg {type_text} {a}{trailer}\n" + fma(negated, b, left)
    return line


def without_fast_math(text: str) -> str:
    """Remove every fast-math flag and attribute, so that code generation cannot use them differently per core."""
    return _FAST_ATTRIBUTES.sub("", _FLAGGED.sub(lambda m: m[1], text))


def declare_fma(text: str) -> str:
    """Declare the intrinsics that explicit_fmuladd and fuse_contracted call, if the text does not declare them yet."""
    declared = {unquote(own_symbol(line)["name"]) for line in text.split("\n") if line.startswith("declare ")}
    missing = {}
    for call in calls_in(text, "@llvm."):
        if _MADE.fullmatch(call.symbol) and call.symbol not in declared:
            types = ", ".join(split_type(argument)[0] for argument in call.arguments)
            missing[call.symbol] = f"declare {call.return_type} @{call.symbol}({types})\n"
    return text + "".join(missing[name] for name in sorted(missing))

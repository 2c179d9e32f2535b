"""Make floating-point arithmetic explicit, so that every version of a function rounds alike.

Two decisions that LLVM leaves to the target are made here once for all versions: whether llvm.fmuladd is fused, and
what fast-math flags allow. See docs/design/one-answer.md.
"""

import re
from collections import Counter
from collections.abc import Collection

from mavcg.passes.ir.types import mangle_type, scalar_of, split_commas, split_type

_FLAG = r"(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc)"
_OPERATION = r"(?:tail |notail )?call|fadd|fsub|fmul|fdiv|frem|fneg|fcmp|select|phi|fptrunc|fpext|uitofp|sitofp"
_FLAGGED = re.compile(rf"(= (?:{_OPERATION}))((?: {_FLAG})+)(?= )")
_FAST_ATTRIBUTES = re.compile(
    r' ?"(?:unsafe-fp-math|no-infs-fp-math|no-nans-fp-math|no-signed-zeros-fp-math|approx-func-fp-math)"="[^"]*"'
)
_VALUE = r'%(?:"[^"]*"|[-a-zA-Z$._0-9]+)'
_FMULADD = re.compile(
    rf"^\s*(?P<result>{_VALUE}) = (?:tail |notail )?call (?P<flags>(?:{_FLAG} )*)"
    r".*?@llvm\.(?P<strict>experimental\.constrained\.)?fmuladd\."
)
_MADE = re.compile(r"call ([^@]*?) ?@(llvm\.(?:experimental\.constrained\.)?(fma|fmul|fadd)\.\w+)\(")
_PRODUCT = re.compile(rf"^\s*({_VALUE}) = fmul((?: {_FLAG})+) (.*)$")
_SUM = re.compile(rf"^(\s*)({_VALUE}) = (fadd|fsub)((?: {_FLAG})+) (.*)$")


def explicit_fmuladd(text: str, fused: Collection[str]) -> str:
    """Rewrite each llvm.fmuladd as llvm.fma if its scalar type is in `fused`, else as fmul and fadd.

    %r = call float @llvm.fmuladd.f32(float %a, float %b, float %c)
      ->  %r = call float @llvm.fma.f32(float %a, float %b, float %c)              fused
      ->  %r.mul = fmul float %a, %b ; %r = fadd float %r.mul, %c                  not
    By LangRef the code generator may choose either form of fmuladd, so that versions would differ. In a program that
    sets the rounding mode, llvm.experimental.constrained.fmuladd becomes constrained.fma, or constrained.fmul and
    constrained.fadd.
    """
    if "fmuladd." not in text:
        return text
    return "\n".join(_explicit_line(line, fused) if "fmuladd." in line else line for line in text.split("\n"))


def _explicit_line(line: str, fused: Collection[str]) -> str:
    match = _FMULADD.match(line)
    if not match:  # its declaration
        return line
    arguments, _, trailer = line[line.index("(", match.end()) + 1 :].rpartition(")")
    items = split_commas(arguments)
    type_text = split_type(items[0])[0]
    if scalar_of(type_text) in fused:
        return line.replace("fmuladd.", "fma.", 1)
    a, b, c = (_value(item) for item in items[:3])
    result = match["result"]
    product = f'%"{result[1:].strip(chr(34))}.mul"'
    indent = line[: len(line) - len(line.lstrip())]
    if match["strict"]:
        modes = ", ".join(items[3:])

        def step(operation: str, left: str, right: str) -> str:
            name = f"@llvm.experimental.constrained.{operation}.{mangle_type(type_text)}"
            return f"call {type_text} {name}({type_text} {left}, {type_text} {right}, {modes}){trailer}"

        return f"{indent}{product} = {step('fmul', a, b)}\n{indent}{result} = {step('fadd', product, c)}"
    metadata = "".join(f", {m}" for m in re.findall(r"!\w+ !\d+", trailer))
    flags = match["flags"]
    return (
        f"{indent}{product} = fmul {flags}{type_text} {a}, {b}{metadata}\n"
        f"{indent}{result} = fadd {flags}{type_text} {product}, {c}{metadata}"
    )


def _value(argument: str) -> str:
    """Return the value in an argument such as "float noundef %x", without its type and attributes."""
    value = split_type(argument)[1]
    return re.sub(r"^(?:noundef |nofpclass\([^)]*\) )+", "", value)


def has_fast_math(body: str) -> bool:
    """True if an instruction has fast-math flags, which allow a pass to change its result.

    Flags: reassociation, contraction, approximation, the sign of a zero (nsz), NaNs and infinities (nnan, ninf).
    """
    return _FLAGGED.search(body) is not None


def has_fmuladd(text: str) -> bool:
    """True if the text calls llvm.fmuladd, which the code generator may fuse or not."""
    return "@llvm.fmuladd." in text


def has_ordered_reduction(text: str) -> bool:
    """True if an optimised function sums vectors lane after lane, in the order of the scalar loop."""
    return "@llvm.vector.reduce.fadd." in text


def sums_of_products(text: str, types: Collection[str]) -> int:
    """Count the fadd and fsub instructions of these scalar types that have the result of an fmul as an operand."""
    count = 0
    for body in re.findall(r"^define .*?^\}$", text, flags=re.MULTILINE | re.DOTALL):
        products = set(re.findall(rf"^\s*({_VALUE}) = fmul ", body, flags=re.MULTILINE))
        for line in re.findall(rf"^\s*{_VALUE} = (?:fadd|fsub)(?: {_FLAG})* (.*)$", body, flags=re.MULTILINE):
            type_text, operands = split_type(line)
            count += scalar_of(type_text) in types and any(v in products for v in re.findall(_VALUE, operands))
    return count


def has_narrow_floats(text: str) -> bool:
    """True if the text has values of type half or bfloat."""
    return re.search(r"\b(?:half|bfloat)\b", text) is not None


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
    uses = Counter(re.findall(_VALUE, body))
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
    negated = f'%"{result[1:].strip(chr(34))}.neg"'

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
    declared = set(re.findall(r"^declare .*@([\w.]+)\(", text, re.MULTILINE))
    missing = {}
    for returns, name, operation in _MADE.findall(text):
        if name not in declared:
            type_text = re.sub(rf"^(?:{_FLAG} )+", "", returns)
            values = [type_text] * (3 if operation == "fma" else 2)
            modes = ["metadata", "metadata"] if ".constrained." in name else []
            missing[name] = f"declare {type_text} @{name}({', '.join([*values, *modes])})\n"
    return text + "".join(missing[name] for name in sorted(missing))

"""Parse the part of LLVM's type grammar (LangRef, "Type System") that separates a type from the IR text after it."""

import re

_CLOSING = {"[": "]", "{": "}", "<": ">", "(": ")"}
_SCALAR_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "x86_fp80": 80, "fp128": 128, "ptr": 64}


def find_closing(text: str, start: int) -> int:
    """Return the index just after the bracket that closes the one at `start`; quoted text is skipped."""
    depth = 0
    position = start
    while position < len(text):
        char = text[position]
        if char == '"':
            position = text.index('"', position + 1)
        elif char in "[{<(":
            depth += 1
        elif char in "]}>)":
            depth -= 1
            if depth == 0:
                return position + 1
        position += 1
    raise ValueError(f"no closing bracket in: {text[start : start + 60]}")


_TYPE = re.compile(
    r"[\[{<%]|target\(|(?:void|half|bfloat|float|double|x86_fp80|x86_amx|fp128|ppc_fp128|ptr|token|i\d+)(?![\w.(])"
)
_WORD = re.compile(r'(?:"[^"]*"(?:="[^"]*")?|[\w.-]+) *')


def type_start(text: str) -> int:
    """Return the index of the type in text that begins with a calling convention, attributes or an address space.

    "fastcc noundef align 8 dereferenceable(4) addrspace(1) ptr @f(": the index of "ptr".
    """
    position = 0
    while not _TYPE.match(text, position):
        if text[position : position + 1] == "(":  # of an attribute with a value
            position = find_closing(text, position)
            position += text[position : position + 1] == " "
            continue
        word = _WORD.match(text, position)
        if not word:
            raise ValueError(f"no type in: {text[:60]}")
        position = word.end()
    return position


def split_type(text: str) -> tuple[str, str]:
    """Divide text that begins with a type, such as "[4 x i32] zeroinitializer", into the type and the text after it."""
    if text[0] in "[{<":
        end = find_closing(text, 0)
    elif text.startswith('%"'):
        end = text.index('"', 2) + 1
    else:
        match = re.match(r"%?[-a-zA-Z$._0-9]+", text)
        if not match:
            raise ValueError(f"not a type: {text[:60]}")
        end = match.end()
        if text.startswith("target("):
            end = find_closing(text, end)
    addrspace = re.match(r" addrspace\(", text[end:])
    if addrspace:
        end = find_closing(text, end + addrspace.end() - 1)
    if text[end : end + 2] == " (":  # a function type: i32 (ptr, ...)
        end = find_closing(text, end + 1)
    return text[:end], text[end:].lstrip(" ")


def split_commas(text: str) -> list[str]:
    """Return the comma-separated items of an argument list, brackets and quotes kept whole; [] for blank text."""
    items: list[str] = []
    start = position = 0
    while position < len(text):
        char = text[position]
        if char == '"':
            position = text.index('"', position + 1)
        elif char in _CLOSING:
            position = find_closing(text, position) - 1
        elif char == ",":
            items.append(text[start:position].strip())
            start = position + 1
        position += 1
    last = text[start:].strip()
    return [*items, last] if last else items


def vector_bits(text: str) -> int:
    """Return the width in bits of the widest fixed vector type in a text; 0 if there is none."""
    widest = 0
    for count, element in re.findall(r"<(\d+) x ([a-z0-9_]+)>", text):
        bits = int(element[1:]) if re.fullmatch(r"i\d+", element) else _SCALAR_BITS.get(element, 0)
        widest = max(widest, int(count) * bits)
    return widest


def mangle_type(type_text: str) -> str:
    """Return the suffix of an overloaded intrinsic for a floating-point type: float -> f32, <4 x float> -> v4f32."""
    scalable = re.fullmatch(r"<(vscale x )?(\d+) x (\w+)>", type_text)
    if scalable:
        return f"{'nx' if scalable[1] else ''}v{scalable[2]}{mangle_type(scalable[3])}"
    return {
        "half": "f16",
        "bfloat": "bf16",
        "float": "f32",
        "double": "f64",
        "x86_fp80": "f80",
        "fp128": "f128",
        "ppc_fp128": "ppcf128",
    }[type_text]


def scalar_of(type_text: str) -> str:
    """Return the element of a vector type, or the type itself: <4 x float> -> float."""
    match = re.fullmatch(r"<(?:vscale x )?\d+ x (\w+)>", type_text)
    return match[1] if match else type_text

"""Symbol names and types in LLVM's IR text: quoted and escaped names, and the end of a type.

Of the type grammar (LangRef, "Type System") only the part is parsed that separates a type from the text after it.
"""

import re
from collections.abc import Iterator

NAME = r'(?:"[^"]*"|[-a-zA-Z$._0-9]+)'
# A quoted text is a symbol (@"a b", $"a b"), a string constant or an asm string; the scanner skips the latter two.
SYMBOL_OR_TEXT = re.compile(rf'[@$](?P<name>{NAME})|c?"[^"]*"')


def unquote(name: str) -> str:
    """Return a symbol without quotes: `"operator new"` -> `operator new`. Escapes such as \\22 stay."""
    return name[1:-1] if name.startswith('"') else name


def quote(name: str) -> str:
    """Return a symbol as IR text spells it: in quotes unless all its characters are plain."""
    return name if re.fullmatch(r"[-a-zA-Z$._][-a-zA-Z$._0-9]*", name) else f'"{name}"'


def escape(name: str) -> str:
    r"""Return a name as IR text spells it between quotes: \ and two digits for ", \ and bytes not in printable ASCII.

    Source: printEscapedString in LLVM's StringExtras.cpp.
    """
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in name.encode())


def unescape(text: str) -> str:
    r"""Return the text without LLVM's escapes of two hexadecimal digits: \0A -> a line's end."""
    return re.sub(r"\\([0-9A-Fa-f]{2})", lambda m: chr(int(m[1], 16)), text)


def symbols_in(text: str) -> Iterator[str]:
    """Yield the @symbols of a text in order, with repetitions; string constants are skipped."""
    return (unquote(m["name"]) for m in SYMBOL_OR_TEXT.finditer(text) if m["name"] and m[0][0] == "@")


def own_symbol(header: str) -> re.Match[str]:
    """Return the match of the symbol that the first line of a global names: its first @symbol; the name is ["name"]."""
    symbols = (m for m in SYMBOL_OR_TEXT.finditer(header) if m["name"] and m[0][0] == "@")
    match = next(symbols, None)
    assert match, f"not a global as LLVM prints it: {header[:80]}"
    return match


def attributes_start(header: str) -> int:
    """Return the index in the first line of a function where its own attributes begin, with the space before them."""
    end = find_closing(header, own_symbol(header).end())
    after = re.match(r"(?: (?:local_)?unnamed_addr)?(?: addrspace\(\d+\))?", header[end:])
    return end + (after.end() if after else 0)


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

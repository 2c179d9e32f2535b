"""Write names that come from files into generated text: a function for each context that a name may occur in.

A name is any text that somebody else wrote: of a model, a tensor, a node, a file, a function, a core. Whatever it is,
the text around it keeps its tokens. Where a language has escapes they are used; elsewhere an allow-list of characters
decides, and other characters become "_".
"""

import re

# Neither "*" nor "\" nor a quote nor "#" nor "$" nor a line's end: a comment of C, assembly, CMake and TOML goes on,
# and so does a line of free text of pkg-config.
_NOT_IN_COMMENTS = re.compile(r"[^0-9A-Za-z _.,:;=+()\[\]<>@/-]")
_NOT_IN_IDENTIFIERS = re.compile(r"[^0-9A-Za-z_]+")
_NOT_IN_TARGETS = re.compile(r"[^0-9A-Za-z_.+-]")  # CMake's policy CMP0037
_PLAIN_IN_FLAGS = re.compile(r"[0-9A-Za-z_.+=@,:/-]")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, 2.2
_XML_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_XML_ATTRIBUTE = _XML_TEXT | str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})


def comment(text: str) -> str:
    """Make a name safe within a comment, or a line of free text, of any language that is generated here."""
    return _NOT_IN_COMMENTS.sub("_", text)


def c_identifier(text: str, otherwise: str = "") -> str:
    """Make a name safe within an identifier: res-net.50 -> res_net_50.

    Args:
        otherwise: the result if no character of it can stay.
    """
    return _NOT_IN_IDENTIFIERS.sub("_", text).strip("_") or otherwise


def c_string(text: str) -> str:
    """Return a C string literal of the name's UTF-8 bytes; what is not plain ASCII, and ? for the trigraphs, in
    octal."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in utf8(text))
    return f'"{"".join(plain)}"'


def utf8(text: str) -> bytes:
    """Return UTF-8 of the text; bytes that Python read by surrogateescape as they were, other surrogates as three
    bytes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def is_assembly_symbol(name: str) -> bool:
    """True if assembly text and linker scripts can name the symbol, in quotes if need be: quotes know no escapes."""
    return name.isprintable() and not re.search(r'["\\]', name)


def assembly_symbol(name: str) -> str:
    """Write a symbol as assemblers read it: in quotes if it has more than letters, digits, dots and dollars."""
    if re.fullmatch(r"[\w.$]+", name):
        return name
    return '"' + "".join(c if is_assembly_symbol(c) else "_" for c in name) + '"'


def cmake_target(text: str) -> str:
    """Make a name safe as one of CMake's targets."""
    return _NOT_IN_TARGETS.sub("_", text)


def cmake_string(text: str) -> str:
    """Write a text as a quoted argument of CMake (cmake-language(7), "Quoted Argument"), quotes included."""
    return '"' + re.sub(r'([\\"$;])', r"\\\1", text) + '"'


def toml_string(text: str) -> str:
    """Write a text as a basic string of TOML; halves of surrogate pairs, which it cannot hold, are replaced."""
    escaped = re.sub(r'["\\]', r"\\\g<0>", "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text))
    return '"' + "".join(f"\\u{ord(c):04x}" if c < " " or c == "\x7f" else c for c in escaped) + '"'


def pkg_config_flag(text: str) -> str:
    """Return the part of a flag in a .pc file: each character that a shell, or pkg-config, may read otherwise is
    escaped.

    Control characters, which a line cannot hold, are "_". A "$" before an escaped "{" names no variable.
    """
    return "".join(c if _PLAIN_IN_FLAGS.match(c) else f"\\{c}" if c.isprintable() else "_" for c in text)


def xml_text(text: str) -> str:
    """Write a text as the content of an XML element; characters that XML cannot hold are replaced."""
    return _NOT_IN_XML.sub("\ufffd", text).translate(_XML_TEXT)


def xml_attribute(text: str) -> str:
    """Write a text as the value of an XML attribute, quotes included."""
    return '"' + _NOT_IN_XML.sub("\ufffd", text).translate(_XML_ATTRIBUTE) + '"'


def plot_label(text: str) -> str:
    """Write a text for matplotlib literally: "$" begins no formula, and the SVG that it is drawn into stays XML."""
    return printable(text).replace("\n", "\\n").replace("\t", " ").replace("$", r"\$")


def printable(text: str) -> str:
    """Return the text for a terminal: what is no printable character, but ends of lines and tabs, as Python writes it,
    \\x1b."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)

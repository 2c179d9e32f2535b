"""Write names that come from files into generated text: a function for each context in which a name may occur.

A name is any text that somebody else wrote, of a model, a tensor, a node, a file, a function or a core. Whatever it is,
the text around it keeps its tokens. Names are escaped if the language has escapes; otherwise characters that are not on
an allow-list become "_".
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
    """Make a name safe within a comment, or a line of free text, of any generated language."""
    return _NOT_IN_COMMENTS.sub("_", text)


def c_identifier(text: str, otherwise: str = "") -> str:
    """Make a name safe within an identifier: res-net.50 -> res_net_50.

    otherwise: result if no character of the name can stay.
    """
    return _NOT_IN_IDENTIFIERS.sub("_", text).strip("_") or otherwise


def c_string(text: str) -> str:
    """Return a C string literal of the name's UTF-8 bytes.

    Characters other than plain ASCII, and the ? of trigraphs, are octal escapes.
    """
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in utf8(text))
    return f'"{"".join(plain)}"'


def utf8(text: str) -> bytes:
    """Return the text in UTF-8; surrogateescape characters become their bytes, and other surrogates three bytes."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def is_assembly_symbol(name: str) -> bool:
    """Return True if assembly text and linker scripts can name the symbol, in quotes if needed.

    Quotes know no escapes.
    """
    return name.isprintable() and not re.search(r'["\\]', name)


def assembly_symbol(name: str) -> str:
    """Write a symbol for assemblers, in quotes if it has characters other than letters, digits, dots and dollars."""
    if re.fullmatch(r"[\w.$]+", name):
        return name
    return '"' + "".join(c if is_assembly_symbol(c) else "_" for c in name) + '"'


def cmake_target(text: str) -> str:
    """Make a name safe as the name of a CMake target."""
    return _NOT_IN_TARGETS.sub("_", text)


def cmake_string(text: str) -> str:
    """Write a text as a quoted argument of CMake (cmake-language(7), "Quoted Argument"), quotes included."""
    return '"' + re.sub(r'([\\"$;])', r"\\\1", text) + '"'


def toml_string(text: str) -> str:
    """Write a text as a basic string of TOML; surrogates, which it cannot contain, are replaced."""
    escaped = re.sub(r'["\\]', r"\\\g<0>", "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text))
    return '"' + "".join(f"\\u{ord(c):04x}" if c < " " or c == "\x7f" else c for c in escaped) + '"'


def pkg_config_flag(text: str) -> str:
    """Return a part of a flag for a .pc file, with escapes for characters that a shell or pkg-config may interpret.

    Control characters, which a line cannot contain, become "_". A "$" before an escaped "{" names no variable.
    """
    return "".join(c if _PLAIN_IN_FLAGS.match(c) else f"\\{c}" if c.isprintable() else "_" for c in text)


def xml_text(text: str) -> str:
    """Write a text as the content of an XML element; characters that XML does not allow are replaced."""
    return _NOT_IN_XML.sub("\ufffd", text).translate(_XML_TEXT)


def xml_attribute(text: str) -> str:
    """Write a text as the value of an XML attribute, quotes included."""
    return '"' + _NOT_IN_XML.sub("\ufffd", text).translate(_XML_ATTRIBUTE) + '"'


def plot_label(text: str) -> str:
    """Write a text for matplotlib literally: "$" begins no formula, and the SVG with it stays XML."""
    return printable(text).replace("\n", "\\n").replace("\t", " ").replace("$", r"\$")


def printable_line(text: str) -> str:
    """Return text for a line of a terminal: as `printable`, with line ends escaped too (\\n)."""
    return printable(text).replace("\n", "\\n")


def printable(text: str) -> str:
    """Return text for a terminal: unprintable characters except line ends and tabs are escaped as in Python (\\x1b)."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)

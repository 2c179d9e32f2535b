"""Text in pictures that are written as SVG by hand: escaped, with what XML cannot hold replaced; and its colours."""

import re
from xml.sax.saxutils import escape, quoteattr

INK, FAINT = "#1b1f23", "#6a737d"
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 does not allow


def escaped(text: str) -> str:
    """As the content of an element."""
    return escape(_UNPRINTABLE.sub("\ufffd", text))


def quoted(text: str) -> str:
    """As the value of an attribute, quotes included."""
    return quoteattr(_UNPRINTABLE.sub("\ufffd", text))

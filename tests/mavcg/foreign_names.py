"""Names that nobody here wrote, and texts taken apart by rules of their own: what the tests of generated text share."""

import re

from hypothesis import strategies as st

# Parts that end something in one of the languages that are generated, or begin it.
_PARTS = (
    "*/",
    "/*",
    "*\\",
    "\\*",
    "//",
    "\\",
    "\n",
    "\r",
    "\\\n",
    "??/",
    "??/\n",
    '"',
    "'",
    "#",
    "$",
    "${x}",
    "$<x>",
    ";",
    "@",
    "%",
    "-->",
    "<!--",
    "<",
    "&",
    "]]>",
    "\x00",
    "\x1b[2J",
    "\x7f",
    "\x85",
    "\u2028",
    "\u202e",
    "é",
    "名",
    "😀",
    "\udc80",
    "\ud800",
    "int x;",
    "#error",
    "#endif",
    ".include",
    "`",
    " ",
    "\t",
    "a",
    "_",
    "[",
    "]]",
    "(",
    ")",
    "{",
    "}",
    "=",
    ",",
)
EXPLOIT = "x *\\ __attribute__((constructor)) static void hole(void) { } \\* y"

NAMES = st.one_of(
    st.just(EXPLOIT),
    st.lists(st.sampled_from(_PARTS), max_size=8).map("".join),
    st.text(st.characters(), max_size=20),
)

_C_TOKEN = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | (?P<string>"(?:[^"\\\n]|\\.)*") | (?P<word>[A-Za-z_$]\w*) | (?P<number>\.?\d[\w.]*)
      | (?P<end>\n) | \s+ | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def c_tokens(text: str, trigraphs: bool = False) -> list[str]:
    """The tokens of C text, ends of lines among them, strings without what is in them (C11, 5.1.1.2).

    Nothing may be left that belongs to no token of plain C: a quote that stays open, a character that is not ASCII.
    """
    if trigraphs:
        text = text.replace("??/", "\\")
    spliced = text.replace("\\\r\n", "").replace("\\\n", "")
    tokens = []
    for match in _C_TOKEN.finditer(spliced):
        if match["sign"]:
            assert match["sign"] in "{}()[]<>;,:.=+-*/%&|^~!?#", repr(match[0])
        if match.lastgroup:
            tokens.append('""' if match["string"] else match[0])
    return tokens

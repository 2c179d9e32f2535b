"""Writes a symbol as assembly text."""

import re

_PLAIN = re.compile(r"[A-Za-z_.$][\w.$]*$")


def quote_symbol(symbol: str) -> str:
    """Return a symbol as assembly text: in quotes where it has characters that a plain name cannot have."""
    return symbol if _PLAIN.match(symbol) else f'"{symbol}"'

"""C source reduced to its code, so that digests of it survive changes of comments."""

import re

# A string or character literal is matched first, so that a comment inside it counts as its content.
_LITERAL_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SPACES = re.compile(r"[ \t]+$", re.MULTILINE)


def c_without_comments(source: str) -> str:
    """Return a C source with a space in place of each comment, and without blank lines and spaces at lines' ends."""
    code = _LITERAL_OR_COMMENT.sub(lambda match: " " if match[0].startswith("/") else match[0], source)
    return "\n".join(line for line in _SPACES.sub("", code).split("\n") if line)

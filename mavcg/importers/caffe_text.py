"""Parser of protobuf's text format into blocks of fields, each with its line, without a schema.

protobuf's own parser does not keep lines, and fails at the first unknown parameter of another fork's layer, before the
layer's type can be reported. Source of the syntax: protobuf's text format specification.
"""

import re

from mavcg.importers.caffe_block import CaffeError, FieldBlock, Scalar

MOST_FIELDS = 1 << 18  # maximum fields of a file; networks of thousands of layers have about 20 per layer
MOST_DEPTH = 16
_SPACE = re.compile(r"(?:[ \t\r\f\v]|#[^\n]*)+")
_TOKEN = re.compile(
    r"""(?P<word>[\w.+-]+)|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<mark>[{}<>\[\]:;,])"""
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_CLOSING = {"{": "}", "<": ">"}


def parse_prototxt(text: str) -> FieldBlock:
    """Return the fields of a file. Raises: CaffeError, with the line, for a syntax error."""
    return _PrototxtParser(text).file()


class _PrototxtParser:
    """A recursive-descent parser of one text; `line` counts from 1."""

    def __init__(self, text: str) -> None:
        self.source = text
        self.at = 0
        self.line = 1
        self.count = 0
        self.kind, self.token, self.token_line = "", "", 1
        self.advance()

    def advance(self) -> None:
        """Read the next token; its kind is "" at the end."""
        while self.at < len(self.source):
            if self.source[self.at] == "\n":
                self.line += 1
                self.at += 1
                continue
            space = _SPACE.match(self.source, self.at)
            if space is None:
                break
            self.at = space.end()
        self.token_line = self.line
        if self.at == len(self.source):
            self.kind, self.token = "", ""
            return
        match = _TOKEN.match(self.source, self.at)
        if match is None:
            raise CaffeError(f"{self.source[self.at : self.at + 20]!r} is not protobuf's text format", self.line)
        self.kind, self.token, self.at = match.lastgroup or "", match.group(), match.end()

    def file(self) -> FieldBlock:
        return FieldBlock("the file", 1, self.fields("", 0, 1))

    def fields(self, end: str, depth: int, opened: int) -> tuple[tuple[str, Scalar | FieldBlock], ...]:
        """Parse fields up to the closing mark, or up to the end of the file if `end` is "". opened: line of their
        beginning."""
        fields: list[tuple[str, Scalar | FieldBlock]] = []
        while self.token != end or self.kind == "string":
            if not self.kind:
                raise CaffeError(f"the file ends within the block of line {opened}; a {end} is missing", self.line)
            if self.kind != "word":
                raise CaffeError(f"{self.token!r} where a field's name is needed", self.token_line)
            name = self.token
            self.advance()
            fields += ((name, value) for value in self.values(name, depth))
            if self.token in (",", ";") and self.kind == "mark":
                self.advance()
        return tuple(fields)

    def values(self, name: str, depth: int) -> list[Scalar | FieldBlock]:
        """Parse the value of a field, or the values of a list in brackets."""
        colon = self.kind == "mark" and self.token == ":"
        if colon:
            self.advance()
        if self.kind == "mark" and self.token in _CLOSING:
            return [self.block(name, depth)]
        if not colon:
            raise CaffeError(
                f"{self.token or 'the end'!r} behind {name}; a colon or a block is needed", self.token_line
            )
        if self.kind != "mark" or self.token != "[":
            return [self.scalar(name)]
        values: list[Scalar | FieldBlock] = []
        self.advance()
        while self.token != "]" or self.kind != "mark":
            opens = self.kind == "mark" and self.token in _CLOSING
            values.append(self.block(name, depth) if opens else self.scalar(name))
            if self.kind == "mark" and self.token == ",":
                self.advance()
            elif self.token != "]":
                raise CaffeError(
                    f"{self.token or 'the end'!r} in the list of {name}; a comma or ] is needed", self.token_line
                )
        self.advance()
        return values

    def block(self, name: str, depth: int) -> FieldBlock:
        if depth == MOST_DEPTH:
            raise CaffeError(f"{name}: blocks within blocks, deeper than {MOST_DEPTH}", self.token_line)
        line, end = self.token_line, _CLOSING[self.token]
        self.count_field()
        self.advance()
        fields = self.fields(end, depth + 1, line)
        self.advance()
        return FieldBlock(name, line, fields)

    def scalar(self, name: str) -> Scalar:
        self.count_field()
        line = self.token_line
        if self.kind == "word":
            text = self.token
            self.advance()
            return Scalar(text, False, line)
        if self.kind != "string":
            raise CaffeError(f"{self.token or 'the end'!r} where a value of {name} is needed", line)
        parts = []
        while self.kind == "string":  # adjacent strings are concatenated
            parts.append(_ESCAPE.sub(_unescape, self.token[1:-1]))
            self.advance()
        return Scalar("".join(parts), True, line)

    def count_field(self) -> None:
        self.count += 1
        if self.count > MOST_FIELDS:
            raise CaffeError(f"more than {MOST_FIELDS} fields; a network has fewer", self.token_line)


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8) & 255) if code[0] in "01234567" else _LETTERS.get(code, code)

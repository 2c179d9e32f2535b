"""Fields of a prototxt as checked values: blocks and scalars, each with its line."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mavcg.errors import MavcgError


class CaffeError(MavcgError):
    """An error at a line of a prototxt; the importer adds the file's name and the line."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Scalar:
    """A number, name or string of the file; text: as in the file, for a string without quotes and escapes."""

    text: str
    quoted: bool
    line: int


@dataclass(frozen=True)
class FieldBlock:
    """The fields between braces, in order. name: the field that has the block; "the file" for the whole file."""

    name: str
    line: int
    fields: tuple[tuple[str, "Scalar | FieldBlock"], ...] = field(default=())

    def all(self, name: str) -> tuple["Scalar | FieldBlock", ...]:
        """Return the values of a field, in order."""
        return tuple(value for key, value in self.fields if key == name)

    def has(self, name: str) -> bool:
        """Return True if the block has the field."""
        return any(key == name for key, _ in self.fields)

    def blocks(self, name: str) -> tuple["FieldBlock", ...]:
        """Return the values of a field that holds blocks. Raises: CaffeError for a scalar."""
        blocks = []
        for value in self.all(name):
            if not isinstance(value, FieldBlock):
                raise CaffeError(f"{name} is {value.text!r}; a block in braces is needed", value.line)
            blocks.append(value)
        return tuple(blocks)

    def block(self, name: str) -> "FieldBlock":
        """Return the block of a field; an empty one if it is absent. Raises: CaffeError if the field is given twice."""
        blocks = self.blocks(name)
        if len(blocks) > 1:
            raise CaffeError(
                f"{name} is given twice (first in line {blocks[0].line}); it may be given once", blocks[1].line
            )
        return blocks[0] if blocks else FieldBlock(name, self.line)

    def scalars(self, name: str) -> tuple[Scalar, ...]:
        """Return the values of a field that holds scalars. Raises: CaffeError for a block."""
        scalars = []
        for value in self.all(name):
            if isinstance(value, FieldBlock):
                raise CaffeError(f"{name} is a block; a value is needed", value.line)
            scalars.append(value)
        return tuple(scalars)

    def scalar(self, name: str) -> Scalar | None:
        """Return the value of a field; None if it is absent. Raises: CaffeError if the field is given twice."""
        scalars = self.scalars(name)
        if len(scalars) > 1:
            raise CaffeError(
                f"{name} is given twice (first in line {scalars[0].line}); it may be given once", scalars[1].line
            )
        return scalars[0] if scalars else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the strings of a field. Raises: CaffeError for a value without quotes."""
        return tuple(_text(name, value) for value in self.scalars(name))

    def text(self, name: str, default: str = "") -> str:
        """Return the string of a field, or the default."""
        value = self.scalar(name)
        return default if value is None else _text(name, value)

    def integers(self, name: str) -> tuple[int, ...]:
        """Return the integers of a field."""
        return tuple(_integer(name, value) for value in self.scalars(name))

    def integer(self, name: str, default: int) -> int:
        """Return the integer of a field, or the default."""
        value = self.scalar(name)
        return default if value is None else _integer(name, value)

    def number(self, name: str, default: float) -> float:
        """Return the number of a field, or the default."""
        value = self.scalar(name)
        return default if value is None else _number(name, value)

    def numbers(self, name: str) -> tuple[float, ...]:
        """Return the numbers of a field."""
        return tuple(_number(name, value) for value in self.scalars(name))

    def boolean(self, name: str, default: bool) -> bool:
        """Return the bool of a field (true, false, 1 or 0), or the default. Raises: CaffeError for another value."""
        value = self.scalar(name)
        if value is None:
            return default
        if value.quoted or value.text.lower() not in ("true", "false", "t", "f", "1", "0"):
            raise CaffeError(f"{name} is {value.text!r}; true or false is needed", value.line)
        return value.text.lower() in ("true", "t", "1")

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """Return the value of an enumeration, given by name or number; the first choice if the field is absent.

        Raises: CaffeError for another value.
        """
        value = self.scalar(name)
        if value is None:
            return choices[0]
        text = value.text
        if not value.quoted and text.isdecimal() and len(text) < 4 and int(text) < len(choices):
            text = choices[int(text)]
        if value.quoted or text not in choices:
            raise CaffeError(f"{name} is {value.text!r}; {', '.join(choices)} are supported", value.line)
        return text


def _text(name: str, value: Scalar) -> str:
    if not value.quoted:
        raise CaffeError(f"{name} is {value.text!r}; a string in quotes is needed", value.line)
    return value.text


def _integer(name: str, value: Scalar) -> int:
    text = value.text.lower()
    try:
        if value.quoted or len(text) > 24 or "_" in text:
            raise ValueError
        sign = -1 if text.startswith("-") else 1
        digits = text.removeprefix("-")
        octal = len(digits) > 1 and digits.startswith("0") and not digits.startswith("0x")
        return sign * int(digits, 8 if octal else 0)
    except ValueError:
        raise CaffeError(f"{name} is {value.text!r}; a whole number is needed", value.line) from None


def _number(name: str, value: Scalar) -> float:
    try:
        text = value.text.lower()
        if value.quoted or len(text) > 64 or "_" in text:
            raise ValueError
        return float(text if text in ("inf", "-inf") else text.removesuffix("f"))
    except ValueError:
        raise CaffeError(f"{name} is {value.text!r}; a number is needed", value.line) from None

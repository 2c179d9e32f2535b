"""Tables of a TFLite file, which is not trusted: flatbuffers' accessors follow any offset.

Accesses outside of the file become an error that names the location; lengths are compared with the file's size before
use, and what is copied out of the file is counted, since tables may share lists and names.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from mavcg.errors import MavcgError, import_problem
from mavcg.graph import Array

MOST_TABLES = 1 << 16  # maximum tensors, operators, buffers or subgraphs of a file
MOST_INTS = 1 << 16  # maximum entries of a list: a shape, an operator's inputs, scales
_READS_PER_BYTE = 4  # maximum bytes of lists and names that are read per byte of the file: tables may share them
_FEWEST_READS = 1 << 16
DAMAGE = (struct.error, IndexError, ValueError, TypeError, OverflowError)  # of accesses outside of the file
_T = TypeVar("_T")


def tflite_module() -> Any:
    """Return the tflite package. Raises: MavcgError if it is not installed."""
    try:
        import tflite
    except ImportError as error:
        absent = f"TFLite files need the tflite package ({error}); pip install mavcg[models]"
        raise import_problem(error, absent) from error
    return tflite


class TfliteTables:
    """The tables of one file. location: the part that is being read, for error messages."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tflite = tflite_module()
        self.location = "the header"
        self.left = _READS_PER_BYTE * len(data) + _FEWEST_READS

    def fail(self, problem: str) -> MavcgError:
        """Return the error for damage at the location."""
        return MavcgError(f"{self.location}: {problem}; the file is damaged")

    def count(self, length: int, label: str) -> int:
        """Check and return a number of tables, each of which has an offset of 4 bytes in the file.

        Raises: MavcgError for more than the file can hold.
        """
        if length > MOST_TABLES or length * 4 > len(self.data):
            raise MavcgError(
                f"the file declares {length} {label}; at most {MOST_TABLES} are read, "
                f"and {len(self.data)} bytes must hold them; the file is damaged"
            )
        return length

    def tables(self, get: Callable[[int], Any], length: int, label: str, read: Callable[[Any, int], _T]) -> list[_T]:
        """Return what `read` makes of each table. label: of one of them."""
        tables = []
        for i in range(self.count(length, f"{label}s")):
            self.location = f"{label} {i}"
            tables.append(read(get(i), i))
        return tables

    def text(self, data: bytes | None) -> str:
        """Return a name, on one line."""
        self.take(len(data or b""))
        text = (data or b"").decode("utf-8", "replace")
        return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)

    def take(self, count: int) -> None:
        """Count bytes that are copied out of the file. Raises: MavcgError if tables share so much that a small file
        would fill the memory."""
        self.left -= count
        if self.left < 0:
            raise self.fail(
                f"names and lists that several tables share make more than {_READS_PER_BYTE} times the file"
            )

    def vector(self, table: Any, name: str) -> Array:
        """Return a list of numbers."""
        if getattr(table, name + "IsNone")():
            return np.zeros(0, np.int64)
        length = getattr(table, name + "Length")()
        if length > MOST_INTS:
            raise self.fail(f"{name} has {length} entries; at most {MOST_INTS} are read")
        numbers = np.asarray(getattr(table, name + "AsNumpy")())
        self.take(numbers.nbytes)
        return numbers

    def ints(self, table: Any, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        return tuple(self.vector(table, name).tolist())

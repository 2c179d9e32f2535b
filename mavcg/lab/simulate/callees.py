"""External memory functions, such as memcpy, that the simulator executes itself and charges at a fixed cost per call.

The bytes that they read and write go through the simulated caches (SimulatedProgram).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mavcg.errors import MavcgError

LARGEST_MOVE = 1 << 28  # maximum bytes of one call


@dataclass(frozen=True)
class CalleeEffect:
    """Effect of a call of an external function.

    value: its return value; None if x0 is unchanged. source, target: addresses of the bytes that it reads and writes; 0
    for none. size: number of these bytes.
    """

    value: int | None
    source: int = 0
    target: int = 0
    size: int = 0


def _copy(emulator: Any) -> CalleeEffect:
    to, source, size = (emulator.general(n) for n in range(3))
    _check(size)
    if size:
        emulator.uc.mem_write(to, bytes(emulator.uc.mem_read(source, size)))
    return CalleeEffect(to, source, to, size)


def _fill(emulator: Any) -> CalleeEffect:
    to, value, size = (emulator.general(n) for n in range(3))
    _check(size)
    if size:
        emulator.uc.mem_write(to, bytes([value & 0xFF]) * size)
    return CalleeEffect(to, 0, to, size)


def _zero(emulator: Any) -> CalleeEffect:
    to, size = emulator.general(0), emulator.general(1)
    _check(size)
    if size:
        emulator.uc.mem_write(to, bytes(size))
    return CalleeEffect(None, 0, to, size)


def _compare(emulator: Any) -> CalleeEffect:
    first, second, size = (emulator.general(n) for n in range(3))
    _check(size)
    a, b = (bytes(emulator.uc.mem_read(at, size)) if size else b"" for at in (first, second))
    same = next((n for n in range(size) if a[n] != b[n]), size)
    difference = a[same] - b[same] if same < size else 0
    return CalleeEffect(difference & 0xFFFF_FFFF, first, 0, same)


def _check(size: int) -> None:
    if size > LARGEST_MOVE:
        raise MavcgError(f"simulate: a call moves {size} bytes, more than {LARGEST_MOVE}; check the arguments (--args)")


CALLEES: Mapping[str, Callable[[Any], CalleeEffect]] = MappingProxyType(
    {
        "memcpy": _copy,
        "memmove": _copy,
        "memset": _fill,
        "bzero": _zero,
        "memcmp": _compare,
        "bcmp": _compare,
        "__memcpy_chk": _copy,
        "__memmove_chk": _copy,
        "__memset_chk": _fill,
    }
)

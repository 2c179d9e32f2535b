"""Bytes that come in pieces of any length leave as words of the length that is needed next."""

from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Module, Mux, Signal


@dataclass(frozen=True)
class Funnel:
    """Bytes in order.

    ready: 1 if a piece may come. has_word: 1 if as many bytes as the next word needs are there. word: these bytes, and
    zeros after them. take: set to 1 to take them.
    """

    ready: Any
    has_word: Any
    word: Any
    take: Any


def funnel(m: Module, name: str, word: int, piece: tuple[Any, Any, Any], need: Any) -> Funnel:
    """Build a funnel.

    Args:
        word: most bytes of a word.
        piece: 1 for a piece that comes in this cycle (it may be 1 only if `ready` is), its bytes, and their number.
        need: bytes of the next word, 1 to `word`.
    """
    comes, data, count = piece
    most = len(data) // 8
    level_bits = (word + most).bit_length()
    kept, level = Signal(8 * (word + most), name=f"{name}_kept"), Signal(level_bits, name=f"{name}_level")
    take = Signal(name=f"{name}_take_word")
    rest = Mux(take, kept >> (need << 3), kept)
    rest_level = (level - Mux(take, need, 0))[:level_bits]
    arriving = Cat(Mux(count > i, data.word_select(i, 8), 0) for i in range(most))
    m.d.sync += [
        kept.eq(Mux(comes, rest | (arriving << (rest_level << 3)), rest)),
        level.eq(rest_level + Mux(comes, count, 0)),
    ]
    made = Cat(Mux(need > i, kept.word_select(i, 8), 0) for i in range(word))
    return Funnel(rest_level <= word, level >= need, made, take)

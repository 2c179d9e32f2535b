"""Shift, round and saturate sums to 8 bits: the manual's section on arithmetic, in three pipeline stages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, signed

from mavcg.accelerators.rtl.sizes import RtlSizes

SUM_BITS = 64  # as in the functional simulator: shifts to the left drop what is above
STAGES = 3
_SHIFT_BITS = 9
_SLOPE_SHIFT, _MOST_SHIFT = 8, 62


@dataclass(frozen=True)
class Finish:
    """The fields of an instruction that say how sums become results; constant while it runs."""

    lo: Any
    hi: Any
    leaky: Any
    slope: Any


def finish_of(v: Mapping[str, Any]) -> Finish:
    """Return the fields of an instruction with lo, hi, leaky and slope."""
    return Finish(v["lo"], v["hi"], v["leaky"], v["slope"])


def requantize(m: Module, name: str, sizes: RtlSizes, total: Any, shift: Any, finish: Finish) -> Any:
    """Return the 8-bit result of `total` * 2^-shift, STAGES cycles later.

    total: a signed sum, at most 54 bits with the slope's product. shift: signed, at most 8 bits.
    """
    scaled, by = Signal(signed(SUM_BITS), name=f"{name}_scaled"), Signal(signed(_SHIFT_BITS + 1), name=f"{name}_by")
    slopes = finish.leaky & (total < 0)
    m.d.sync += [
        scaled.eq(Mux(slopes, total * finish.slope, total)),
        by.eq(Mux(slopes, shift + _SLOPE_SHIFT, shift)),
    ]
    value, half = _shift(m, name, sizes, scaled, by)
    rounded = value + half
    if sizes.rounding == "half_away":
        negative = Signal(name=f"{name}_negative")
        m.d.sync += negative.eq((scaled < 0) & (by > 0))
        rounded = Mux(negative, -rounded, rounded)
    result = Signal(signed(8), name=f"{name}_result")
    m.d.sync += result.eq(
        Mux(rounded < finish.lo, finish.lo, Mux(rounded > finish.hi, finish.hi, rounded[:8].as_signed()))
    )
    return result


def _shift(m: Module, name: str, sizes: RtlSizes, scaled: Any, by: Any) -> tuple[Any, Any]:
    """Return the shifted value and what rounding adds, a cycle later; for half_away of the absolute value."""
    right, left = Mux(by > _MOST_SHIFT, _MOST_SHIFT, by)[:6], (-by)[:6]
    magnitude: Any = scaled
    if sizes.rounding == "half_away":
        magnitude = Mux(scaled < 0, -scaled, scaled)[:SUM_BITS].as_signed()
    # A bit below the value: after the shift it is the first bit that was cut off, the half.
    shifted_right = Cat(Const(0, 1), magnitude).as_signed() >> right
    shifted_left = Mux(by <= -SUM_BITS, 0, scaled << left)[:SUM_BITS].as_signed()
    value, half = Signal(signed(SUM_BITS), name=f"{name}_value"), Signal(name=f"{name}_half")
    rounds = 0 if sizes.rounding == "floor" else shifted_right[0] & (by > 0)
    m.d.sync += [value.eq(Mux(by > 0, shifted_right[1:].as_signed(), shifted_left)), half.eq(rounds)]
    return value, half

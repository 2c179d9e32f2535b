"""Load splitting: replaces a load that cannot dual-issue on an in-order core by loads that can.

    ldr q0, [x1]      ->   ldr d0, [x1]            ldp q0, q1, [x1], #32  ->  as two ldr q, then add x1, x1, #32
                           ldr xT, [x1, #8]
                           ins v0.d[1], xT

Sources: "Microarchitecture-aware code generation ..." section 3.2.2 and algorithm 3.1 (only in loops, only with a free
general register); gemmlowp's standalone/neon-gemm-kernel-benchmark.cc for the form. The code must then be rescheduled,
so that other instructions come between the three: otherwise a split load is slower than a whole one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mavcg.passes.asm.isa.encoding import STEP_LIMIT, reaches
from mavcg.passes.asm.isa.syntax import ZERO, Imm, Instr, Mem, RawOperand, Reg, RegList


@dataclass(frozen=True)
class SplitBody:
    """The body of a loop after splitting.

    scratch: names of the new scratch registers ("x%0", ...). splits: number of loads split in two halves. unpaired:
    number of load pairs split into single loads.
    """

    instrs: tuple[Instr, ...]
    scratch: tuple[str, ...]
    splits: int
    unpaired: int


def split_loads(instrs: Sequence[Instr], split: bool, unpair: bool, at_most: int | None = None) -> SplitBody:
    """Split the q loads of a loop's body in halves, and its load pairs into single loads.

    split, unpair: whether the core's profile enables each of the two. at_most: maximum of scratch registers; loads
    beyond it stay whole. Scratch registers get placeholder names; rename_registers.allocate assigns real registers.
    """
    rewritten: list[Instr] = []
    scratch: list[str] = []
    counts = {"splits": 0, "unpaired": 0}

    def fresh() -> str | None:
        if at_most is not None and len(scratch) >= at_most:
            return None
        scratch.append(f"x%{len(scratch)}")
        return scratch[-1]

    for instr in instrs:
        pieces = _split(instr) if split or unpair else None
        before, loads, after = pieces or ((), (), ())
        halves = [_halves(load, fresh) if split else None for load in loads]
        parted = len(loads) > 1
        if not any(halves) and not (parted and unpair):  # no enabled form applies
            rewritten.append(instr)
            continue
        counts["unpaired"] += parted
        counts["splits"] += sum(half is not None for half in halves)
        rewritten += before
        for load, half in zip(loads, halves, strict=True):
            rewritten += half or (load,)
        rewritten += after
    return SplitBody(tuple(rewritten), tuple(scratch), counts["splits"], counts["unpaired"])


_Parts = tuple[tuple[Instr, ...], tuple[Instr, ...], tuple[Instr, ...]]


def _split(instr: Instr) -> _Parts | None:
    """Return (code before, single loads without writeback, code after) that replaces a load; None for other code."""
    m, ops = instr.mnemonic, instr.operands
    match m, *ops:
        case "ldr" | "ldur", Reg(view="q") as target, *_, Mem() as address:
            targets, size = [target], 16
        case "ldp", Reg() as target, Reg() as other, *_, Mem() as address if target.view in "qdsxw":
            targets, size = [target, other], {"q": 16, "d": 8, "x": 8}.get(target.view, 4)
        case "ld1", RegList(lane=None) as several, *_, Mem() as address:
            if several.registers[0].arrangement not in ("16b", "8h", "4s", "2d"):
                return None
            targets, size = [Reg(r.name, "q") for r in several.registers], 16
        case _:
            return None
    if address.offset is None or address.base.name == ZERO:
        return None
    if any(t.name == address.base.name for t in targets[:-1]):  # a later load would use the changed base
        return None
    if address.mode != "offset" and any(t.name == address.base.name for t in targets):
        return None
    before, base_offset, after = _write_back(address)
    if before is None or after is None:
        return None
    if address.index is not None and address.mode == "offset":
        if len(targets) > 1:
            return None
        return before, (replace(instr, operands=(targets[0], address)),), after
    loads = []
    for i, target in enumerate(targets):
        offset = base_offset + i * size
        if not reaches(offset, size):
            return None
        loads.append(Instr("ldr", (target, Mem(address.base, offset))))
    return before, tuple(loads), after


def _write_back(address: Mem) -> tuple[tuple[Instr, ...] | None, int, tuple[Instr, ...] | None]:
    """Return the code before the loads, the offset of the first load, and the update of the base after the loads.

    The two parts of code are None if the update cannot be encoded.
    """
    if address.mode == "offset":
        return (), address.offset or 0, ()
    if address.index is not None:  # post-indexed by a register, which only structure loads have
        if address.index.name == ZERO:
            return None, 0, None
        return (), 0, (Instr("add", (address.base, address.base, address.index)),)
    assert address.offset is not None
    step = _step(address.base, address.offset)
    if step is None:
        return None, 0, None
    # The base is updated last in both modes: the loads then need not wait for it.
    return (), address.offset if address.mode == "pre" else 0, step


def _step(base: Reg, offset: int) -> tuple[Instr, ...] | None:
    if not offset:
        return ()
    if abs(offset) >= STEP_LIMIT:
        return None
    return (Instr("add" if offset > 0 else "sub", (base, base, Imm(abs(offset)))),)


def _halves(load: Instr, fresh: Callable[[], str | None]) -> tuple[Instr, ...] | None:
    """Split ldr q into ldr d, ldr x and ins; None if an offset has no encoding or no scratch register is left."""
    match load.operands:
        case (Reg(view="q") as target, Mem(index=Reg()) as address):
            halves = _indexed_halves
        case (Reg(view="q") as target, Mem(offset=int(offset)) as address) if reaches(offset, 8) and reaches(
            offset + 8, 8
        ):
            halves = _offset_halves
        case _:
            return None
    name = fresh()
    return None if name is None else halves(replace(target, view="d"), address, Reg(name, "x"))


def _offset_halves(low: Reg, address: Mem, high: Reg) -> tuple[Instr, ...]:
    """Split a load at a constant offset."""
    assert address.offset is not None
    return (
        Instr("ldr", (low, Mem(address.base, address.offset))),
        Instr("ldr", (high, Mem(address.base, address.offset + 8))),
        _insert(low, high),
    )


def _indexed_halves(low: Reg, address: Mem, high: Reg) -> tuple[Instr, ...]:
    """Split an indexed load; the scratch register holds the address until the second load overwrites it."""
    assert address.index is not None
    extend = address.extend or ("lsl #0" if address.index.view == "x" else "uxtw")
    operands = (high, address.base, address.index) + (() if extend == "lsl #0" else (RawOperand(extend),))
    return (
        Instr("add", operands),
        Instr("ldr", (low, Mem(high, 0))),
        Instr("ldr", (high, Mem(high, 8))),
        _insert(low, high),
    )


def _insert(low: Reg, high: Reg) -> Instr:
    return Instr("ins", (Reg(low.name, "v", "d", 1), high))

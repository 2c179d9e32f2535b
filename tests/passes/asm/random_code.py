"""Random AArch64 functions as LLVM prints them: straight-line code and counted loops, for checks by execution.

Each instruction is made from one integer that hypothesis draws, so that a failing example shrinks by leaving
instructions out. Any register value is a valid address (mavcg.emulation maps memory where a function looks).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

FRAME_SLOTS = 64  # bytes at sp for the function's own use
CONDITIONS = ("eq", "ne", "hs", "lo", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le")
WIDTHS = {"q": 16, "d": 8, "s": 4, "h": 2, "b": 1, "x": 8, "w": 4}
LANES = {"b": 16, "h": 8, "s": 4, "d": 2}
ARRANGEMENTS = {"16b": 16, "8b": 8, "8h": 16, "4h": 8, "4s": 16, "2s": 8, "2d": 16}


@dataclass(frozen=True)
class Registers:
    """Registers that a function's instructions may use, by number.

    sources: read, never written (counters, limits). fixed: pointers that only their loop moves.
    """

    pointers: tuple[int, ...]
    ints: tuple[int, ...]
    vectors: tuple[int, ...]
    sources: tuple[int, ...] = ()
    fixed: tuple[int, ...] = ()
    has_frame: bool = False
    is_kernel: bool = False  # mostly loads and multiply-adds


# One line each. {v}: a vector register's number; {x}: an integer register's, to be written; {r}: to be read; {c}: a
# condition; {p}: a pointer's; {iN}: a number below N; {low}: a vector register's below 16 (lanes of halves).
_FLOAT = """
fmla v{v}.4s, v{v}.4s, v{v}.4s
fmla v{v}.4s, v{v}.4s, v{v}.s[{i4}]
fmla v{v}.4s, v{v}.4s, v{v}.s[{i4}]
fmla v{v}.2s, v{v}.2s, v{v}.s[{i4}]
fmla v{v}.2d, v{v}.2d, v{v}.d[{i2}]
fmla v{v}.2d, v{v}.2d, v{v}.2d
fmla v{v}.8h, v{v}.8h, v{v}.8h
fmla v{v}.8h, v{v}.8h, v{low}.h[{i8}]
fmls v{v}.4s, v{v}.4s, v{v}.4s
fmls v{v}.4s, v{v}.4s, v{v}.s[{i4}]
fmul v{v}.4s, v{v}.4s, v{v}.4s
fmul v{v}.4s, v{v}.4s, v{v}.s[{i4}]
fmul v{v}.2d, v{v}.2d, v{v}.2d
fadd v{v}.4s, v{v}.4s, v{v}.4s
fadd v{v}.2d, v{v}.2d, v{v}.2d
fsub v{v}.4s, v{v}.4s, v{v}.4s
fmax v{v}.4s, v{v}.4s, v{v}.4s
fminnm v{v}.4s, v{v}.4s, v{v}.4s
faddp v{v}.4s, v{v}.4s, v{v}.4s
fabs v{v}.4s, v{v}.4s
fneg v{v}.2d, v{v}.2d
fcmgt v{v}.4s, v{v}.4s, v{v}.4s
scvtf v{v}.4s, v{v}.4s
fcvtzs v{v}.4s, v{v}.4s
fcvtl v{v}.2d, v{v}.2s
fcvtn2 v{v}.4s, v{v}.2d
fmadd s{v}, s{v}, s{v}, s{v}
fmla s{v}, s{v}, v{v}.s[{i4}]
fmul d{v}, d{v}, d{v}
fadd s{v}, s{v}, s{v}
fdiv s{v}, s{v}, s{v}
fsqrt v{v}.4s, v{v}.4s
fcmp s{v}, s{v}
fcsel s{v}, s{v}, s{v}, {c}
"""
_INTEGER_VECTOR = """
sdot v{v}.4s, v{v}.16b, v{v}.16b
sdot v{v}.4s, v{v}.16b, v{v}.4b[{i4}]
sdot v{v}.4s, v{v}.16b, v{v}.4b[{i4}]
udot v{v}.4s, v{v}.16b, v{v}.4b[{i4}]
sdot v{v}.2s, v{v}.8b, v{v}.8b
add v{v}.4s, v{v}.4s, v{v}.4s
sub v{v}.16b, v{v}.16b, v{v}.16b
add d{v}, d{v}, d{v}
mul v{v}.8h, v{v}.8h, v{v}.8h
mla v{v}.4s, v{v}.4s, v{v}.s[{i4}]
mls v{v}.8h, v{v}.8h, v{low}.h[{i8}]
smull v{v}.8h, v{v}.8b, v{v}.8b
smull2 v{v}.8h, v{v}.16b, v{v}.16b
smlal v{v}.4s, v{v}.4h, v{v}.4h
umlal2 v{v}.4s, v{v}.8h, v{low}.h[{i8}]
sadalp v{v}.4s, v{v}.8h
saddlp v{v}.4s, v{v}.8h
uaddw v{v}.8h, v{v}.8h, v{v}.8b
sqxtn v{v}.4h, v{v}.4s
sqxtn2 v{v}.8h, v{v}.4s
uqadd v{v}.16b, v{v}.16b, v{v}.16b
sqrdmulh v{v}.4s, v{v}.4s, v{v}.s[{i4}]
and v{v}.16b, v{v}.16b, v{v}.16b
orr v{v}.16b, v{v}.16b, v{v}.16b
eor v{v}.16b, v{v}.16b, v{v}.16b
bsl v{v}.16b, v{v}.16b, v{v}.16b
bic v{v}.4s, #{i128}
shl v{v}.4s, v{v}.4s, #{i32}
ushr v{v}.2d, v{v}.2d, #{n32}
sshll v{v}.8h, v{v}.8b, #{i8}
ssra v{v}.4s, v{v}.4s, #{n32}
sshl v{v}.4s, v{v}.4s, v{v}.4s
cmeq v{v}.4s, v{v}.4s, v{v}.4s
smax v{v}.8h, v{v}.8h, v{v}.8h
addv s{v}, v{v}.4s
addp v{v}.4s, v{v}.4s, v{v}.4s
"""
_PERMUTE = """
zip1 v{v}.4s, v{v}.4s, v{v}.4s
zip2 v{v}.2d, v{v}.2d, v{v}.2d
uzp1 v{v}.4s, v{v}.4s, v{v}.4s
trn2 v{v}.4s, v{v}.4s, v{v}.4s
ext v{v}.16b, v{v}.16b, v{v}.16b, #{i16}
rev64 v{v}.4s, v{v}.4s
tbl v{v}.16b, { v{v}.16b }, v{v}.16b
ins v{v}.d[1], x{r}
ins v{v}.d[1], x{r}
ins v{v}.s[{i4}], w{r}
mov v{v}.s[{i4}], v{v}.s[{i4}]
mov v{v}.d[{i2}], v{v}.d[{i2}]
mov v{v}.b[{i16}], w{r}
mov v{v}.16b, v{v}.16b
dup v{v}.4s, w{r}
dup v{v}.2d, x{r}
dup v{v}.4s, v{v}.s[{i4}]
mov s{v}, v{v}.s[{i4}]
umov w{x}, v{v}.b[{i16}]
mov x{x}, v{v}.d[1]
mov w{x}, v{v}.s[{i4}]
smov x{x}, v{v}.h[{i8}]
fmov w{x}, s{v}
fmov x{x}, d{v}
fmov d{v}, x{r}
fmov s{v}, s{v}
fmov v{v}.4s, #1.0
movi v{v}.2d, #0
movi v{v}.4s, #{i128}
mvni v{v}.4s, #{i128}, lsl #8
"""
_SCALAR = """
add x{x}, x{r}, x{r}
add w{x}, w{r}, w{r}
add x{x}, x{r}, #{i4096}
add x{x}, x{r}, x{r}, lsl #{i8}
add x{x}, x{r}, w{r}, sxtw #2
sub x{x}, x{r}, x{r}
sub w{x}, w{r}, #{i64}
neg x{x}, x{r}
madd x{x}, x{r}, x{r}, x{r}
msub w{x}, w{r}, w{r}, w{r}
mul x{x}, x{r}, x{r}
smull x{x}, w{r}, w{r}
umulh x{x}, x{r}, x{r}
sdiv w{x}, w{r}, w{r}
and x{x}, x{r}, x{r}
and x{x}, x{r}, #0xff
orr w{x}, w{r}, w{r}, lsl #{i8}
eor x{x}, x{r}, x{r}, ror #{i64}
bic x{x}, x{r}, x{r}
lsl x{x}, x{r}, #{i64}
lsr w{x}, w{r}, #{i32}
asr x{x}, x{r}, x{r}
ubfx x{x}, x{r}, #3, #{n32}
bfi x{x}, x{r}, #5, #{n32}
extr x{x}, x{r}, x{r}, #{i64}
sxtw x{x}, w{r}
uxtb w{x}, w{r}
clz x{x}, x{r}
rbit w{x}, w{r}
rev x{x}, x{r}
mov x{x}, x{r}
mov w{x}, #{i4096}
movk x{x}, #{i4096}, lsl #16
add x{p}, x{p}, #{i64}
sub x{p}, x{p}, #{i16}
add x{p}, x{p}, x{p2}, lsl #{i4}
nop
prfm pldl1keep, [x{p}, #{i16}000]
"""
_FLAG_READERS = """
csel x{x}, x{r}, x{r}, {c}
csinc w{x}, w{r}, w{r}, {c}
cset w{x}, {c}
csetm x{x}, {c}
cneg x{x}, x{r}, {c}
adc x{x}, x{r}, x{r}
sbc w{x}, w{r}, w{r}
csel x{p}, x{p}, x{p2}, {c}
"""
_FLAG_WRITERS = """
cmp x{r}, x{r}
cmp w{r}, #{i64}
cmn x{r}, #{i64}
tst x{r}, x{r}
tst w{r}, #0x3
adds x{x}, x{r}, x{r}
subs w{x}, w{r}, w{r}
ands x{x}, x{r}, #0xff
adcs x{x}, x{r}, x{r}
ccmp x{r}, x{r}, #{i16}, {c}
ccmp w{r}, #{i32}, #{i16}, {c}
"""


def _fill(dice: Random, registers: Registers, template: str) -> str:
    def one(found: re.Match[str]) -> str:
        word = found[1]
        if word in ("v", "low"):
            return str(dice.choice([v for v in registers.vectors if v < 16 or word == "v"]))
        if word in ("p", "p2"):
            may_update = [p for p in registers.pointers if p not in registers.fixed]
            return str(dice.choice(may_update))
        if word in ("x", "r"):
            return str(dice.choice(registers.ints if word == "x" else registers.ints + registers.sources))
        if word == "c":
            return dice.choice(CONDITIONS)
        return str(dice.randrange(int(word[1:])) + (word[0] == "n"))

    return re.sub(r"{([a-z]+\d*)}", one, template)


def _from_list(templates: str) -> Callable[[Random, Registers], str]:
    lines = templates.strip().splitlines()
    return lambda dice, registers: _fill(dice, registers, dice.choice(lines))


def _base(dice: Random, registers: Registers) -> tuple[str, bool]:
    """A base register, and whether an instruction may move it."""
    if registers.has_frame and dice.random() < 0.12:
        return "sp", False
    number = dice.choice(registers.pointers)
    return f"x{number}", number not in registers.fixed


def _address(dice: Random, registers: Registers, width: int, stride: int | None = None) -> str:
    """An address of str and ldr. stride: bytes from one register to the next (pairs have no register offsets)."""
    base, may_update = _base(dice, registers)
    if base == "sp":
        return f"[sp, #{dice.randrange(FRAME_SLOTS // 32) * 32}]"
    mode = dice.choice(("plain", "offset", "offset", "post", "post", "pre", "index", "index"))
    if mode in ("post", "pre") and not may_update:
        mode = "offset"
    if mode == "index" and stride is None:
        index = dice.choice(registers.ints + registers.sources * 3)
        shift = {16: 4, 8: 3, 4: 2, 2: 1, 1: 0}[width]
        scale = f" #{shift}" if shift and dice.random() < 0.6 else ""
        forms = (f"x{index}" + (f", lsl{scale}" if scale else ""), f"w{index}, uxtw{scale}", f"w{index}, sxtw{scale}")
        return f"[{base}, {dice.choice(forms)}]"
    near = dice.choice((-1, 1, 1, 1, 2, 3, 4)) * (stride or width)
    if mode == "post":
        return f"[{base}], #{near}"
    if mode == "pre":
        return f"[{base}, #{near}]!"
    if mode == "offset" and stride is None and dice.random() < 0.15:
        near = dice.randrange(-64, 64)  # unscaled: ldur
    return f"[{base}]" if mode == "plain" else f"[{base}, #{near}]"


def _scalar_access(dice: Random, registers: Registers, vector: str, integer: str) -> str:
    """ldr or str of one register."""
    if dice.random() < 0.75:
        kind = dice.choice("qqqqddsshb")
        return f"{vector} {kind}{dice.choice(registers.vectors)}, {_address(dice, registers, WIDTHS[kind])}"
    names = ("ldr x", "ldr w", "ldrb w", "ldrsh x", "ldrsw x") if integer == "ldr" else ("str x", "str w", "strh w")
    name = dice.choice(names)
    width = 1 if "b" in name else 2 if "h" in name else 4 if name[-1] == "w" or "sw" in name else 8
    return f"{name}{dice.choice(registers.ints)}, {_address(dice, registers, width)}"


def _pair(dice: Random, registers: Registers, name: str) -> str:
    kind = dice.choice("qqqddsxxw")
    first, second = dice.sample(registers.ints if kind in "xw" else registers.vectors, 2)
    width = WIDTHS[kind]
    return f"{name} {kind}{first}, {kind}{second}, {_address(dice, registers, width, 2 * width)}"


def _structure(dice: Random, registers: Registers, name: str) -> str:
    """ld1 and its kin: several registers, one lane, all lanes; ld2 to ld4."""
    base, may_update = _base(dice, registers)
    first = dice.choice(registers.vectors)
    forms = ("several", "several", "several", "lane", "lane", "all") if name == "ld" else ("several", "lane")
    form = dice.choice(forms)
    if form == "several":
        count = dice.randint(1, 4)
        interleaved = count > 1 and dice.random() < 0.3
        arrangement = dice.choice(list(ARRANGEMENTS))
        names = ", ".join(f"v{(first + at) % 32}.{arrangement}" for at in range(count))
        text, size = f"{name}{count if interleaved else 1} {{ {names} }}", count * ARRANGEMENTS[arrangement]
    elif form == "lane":
        kind = dice.choice("bhsd")
        text, size = f"{name}1 {{ v{first}.{kind} }}[{dice.randrange(LANES[kind])}]", WIDTHS[kind]
    else:
        arrangement = dice.choice(list(ARRANGEMENTS))
        text, size = f"ld1r {{ v{first}.{arrangement} }}", WIDTHS[arrangement[-1]]
    post = dice.choice(("", f", #{size}", f", #{size}", f", x{dice.choice(registers.ints)}")) if may_update else ""
    return f"{text}, [{base}]{post}"


def _load(dice: Random, registers: Registers) -> str:
    form = dice.random()
    if form < 0.5:
        return _scalar_access(dice, registers, "ldr", "ldr")
    return _pair(dice, registers, "ldp") if form < 0.72 else _structure(dice, registers, "ld")


def _store(dice: Random, registers: Registers) -> str:
    form = dice.random()
    if form < 0.6:
        return _scalar_access(dice, registers, "str", "str")
    return _pair(dice, registers, "stp") if form < 0.8 else _structure(dice, registers, "st")


_KINDS: Sequence[tuple[float, Callable[[Random, Registers], str]]] = (
    (30, _load),
    (11, _store),
    (24, _from_list(_FLOAT)),
    (13, _from_list(_INTEGER_VECTOR)),
    (11, _from_list(_PERMUTE)),
    (12, _from_list(_SCALAR)),
    (5, _from_list(_FLAG_READERS)),
    (3, _from_list(_FLAG_WRITERS)),
)


_MULTIPLY_ADDS = re.findall(r"^(?:fmla|sdot|udot|mla|smlal) .*", _FLOAT + _INTEGER_VECTOR, re.M)
_KERNEL_KINDS: Sequence[tuple[float, Callable[[Random, Registers], str]]] = (
    (36, _load),
    (2, _store),
    (50, _from_list("\n".join(_MULTIPLY_ADDS))),
    (6, _from_list(_PERMUTE)),
    (6, _from_list(_SCALAR)),
)


def instruction(seed: int, registers: Registers) -> str:
    """The instruction that `seed` stands for."""
    dice = Random(seed)
    kinds = _KERNEL_KINDS if registers.is_kernel else _KINDS
    make = dice.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]
    return make(dice, registers)


def writes_flags(line: str) -> bool:
    names = ("cmp", "cmn", "tst", "adds", "subs", "ands", "adcs", "ccmp", "fcmp")
    return line.split(" ", 1)[0] in names


def _trip_count(dice: Random, registers: Registers, register: int) -> list[str]:
    """Lines that put 1 to 40 into a register: known when it was assembled, or from an argument."""
    if dice.random() < 0.6:
        return [f"mov x{register}, #{dice.choice((1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 33, 40))}"]
    mask = dice.choice((1, 3, 7, 31))
    return [f"and x{register}, x{dice.choice(registers.ints)}, #{mask:#x}", f"add x{register}, x{register}, #1"]


def _insert(dice: Random, body: list[str], line: str, after: int = 0) -> int:
    at = dice.randint(after, len(body))
    body.insert(at, line)
    return at


def _behind_flags(body: Sequence[str]) -> int:
    """The first place with no writer of flags behind it."""
    return max((at + 1 for at, line in enumerate(body) if writes_flags(line)), default=0)


def counted_loop(dice: Random, registers: Registers, seeds: Sequence[int], label: str) -> list[str]:
    """A do-while loop around the instructions of `seeds`; registers.sources are its counter and its limit."""
    counter, limit = registers.sources
    size = dice.choice("xw")
    i, end = f"{size}{counter}", f"{size}{limit}"
    step = dice.choice((1, 1, 2, 4))
    form = dice.choice(("subs", "subs", "cbnz", "cmp", "cmp", "cmp early", "pointer", "downto"))
    setup = [f"mov {i}, #0"] if form.startswith("cmp") else []
    if form == "pointer":
        registers = replace(registers, fixed=registers.pointers[:1])
    body = [instruction(seed, registers) for seed in seeds]
    if form == "subs":
        setup += _trip_count(dice, registers, counter)
        _insert(dice, body, f"subs {i}, {i}, #1", _behind_flags(body))
        body.append(f"b.{dice.choice(('ne', 'ne', 'gt', 'hi'))} {label}")
    elif form == "downto":
        setup += [*_trip_count(dice, registers, counter), f"lsl x{counter}, x{counter}, #1"]
        _insert(dice, body, f"subs {i}, {i}, #{2 * step}", _behind_flags(body))
        body.append(f"b.gt {label}")
    elif form == "cbnz":
        setup += _trip_count(dice, registers, counter)
        _insert(dice, body, f"sub {i}, {i}, #1")
        body.append(f"cbnz {i}, {label}")
    elif form.startswith("cmp"):
        setup += [*_trip_count(dice, registers, limit), f"lsl x{limit}, x{limit}, #{step.bit_length() - 1}"]
        if form == "cmp early":  # the old value is compared: one more trip
            early = _insert(dice, body, f"cmp {i}, {end}", _behind_flags(body))
            _insert(dice, body, f"add {i}, {i}, #{step}", early + 1)
        else:
            moved = _insert(dice, body, f"add {i}, {i}, #{step}")
            _insert(dice, body, f"cmp {i}, {end}", max(moved + 1, _behind_flags(body)))
        body.append(f"b.{dice.choice(('lo', 'lt', 'ne'))} {label}")
    else:
        pointer, stride = registers.pointers[0], dice.choice((8, 16, 32, 64))
        setup += _trip_count(dice, registers, limit)
        setup += [f"lsl x{limit}, x{limit}, #{stride.bit_length() - 1}", f"add x{limit}, x{pointer}, x{limit}"]
        vector = dice.choice(registers.vectors)
        moves = (f"ldr q{vector}, [x{pointer}], #{stride}", f"add x{pointer}, x{pointer}, #{stride}")
        moved = _insert(dice, body, dice.choice(moves))
        _insert(dice, body, f"cmp x{pointer}, x{limit}", max(moved + 1, _behind_flags(body)))
        body.append(f"b.{dice.choice(('ne', 'lo'))} {label}")
    return [*setup, f"{label}:", *body]


def _live_out(dice: Random, registers: Registers) -> list[str]:
    """Stores of some registers, and some results: all others are dead."""
    pointer = dice.choice(registers.pointers)
    lines = [f"str q{v}, [x{pointer}, #{16 * at}]" for at, v in enumerate(registers.vectors) if dice.random() < 0.7]
    kept = [x for x in registers.ints + registers.pointers[1:] if dice.random() < 0.6]
    lines += [f"str x{x}, [x{pointer}, #{512 + 8 * at}]" for at, x in enumerate(kept)]
    lines += [f"mov v0.16b, v{dice.choice(registers.vectors)}.16b"] if dice.random() < 0.5 else []
    return [*lines, f"mov x0, x{dice.choice(registers.ints + registers.pointers)}"] if dice.random() < 0.5 else lines


def with_frame(lines: Sequence[str], has_frame: bool) -> list[str]:
    """Save and restore what a callee must preserve and `lines` touch."""
    text = "\n".join(lines)
    numbers = {(kind, int(number)) for kind, number in re.findall(r"\b([xwvqdshb])(\d+)\b", text)}
    saved = sorted({f"x{n}" for kind, n in numbers if kind in "xw" and 19 <= n <= 28})
    saved += sorted({f"d{n}" for kind, n in numbers if kind in "vqdshb" and 8 <= n <= 15})
    size = (FRAME_SLOTS if has_frame else 0) + -(-len(saved) // 2) * 16
    if not size:
        return [*lines, "ret"]
    first = size - -(-len(saved) // 2) * 16
    save: list[str] = []
    restore: list[str] = []
    while saved:
        at = first + 8 * (len(save) * 2)
        if len(saved) > 1 and saved[0][0] == saved[1][0]:
            save.append(f"stp {saved[0]}, {saved[1]}, [sp, #{at}]")
            restore.append(f"ldp {saved[0]}, {saved[1]}, [sp, #{at}]")
            saved = saved[2:]
        else:
            save.append(f"str {saved[0]}, [sp, #{at}]")
            restore.append(f"ldr {saved[0]}, [sp, #{at}]")
            saved = saved[1:]
    size = max(size, first + 16 * len(save))
    slots = [f"stp xzr, xzr, [sp, #{at}]" for at in range(0, FRAME_SLOTS, 16)] if has_frame else []
    return [f"sub sp, sp, #{size}", *save, *slots, *lines, *reversed(restore), f"add sp, sp, #{size}", "ret"]


def _registers(dice: Random, has_frame: bool) -> Registers:
    numbers = dice.sample(range(8, 18), 10) if dice.random() < 0.7 else dice.sample([*range(8, 18), *range(19, 29)], 10)
    vectors = dice.sample(range(32), dice.randint(5, 10))
    vectors[0] %= 16  # lanes of halves are of v0 to v15
    pointers = tuple(dice.sample(range(8), dice.randint(2, 4)))
    return Registers(
        pointers,
        tuple(numbers[2 : 2 + dice.randint(3, 6)]),
        tuple(dict.fromkeys(vectors)),
        sources=(numbers[0], numbers[1]),
        has_frame=has_frame,
    )


@dataclass(frozen=True)
class RandomFunction:
    """The parts of a random function that hypothesis draws. body: of the loop; empty for straight-line code."""

    shape: int
    before: tuple[int, ...]
    body: tuple[int, ...]
    after: tuple[int, ...]

    def with_one_less(self) -> Iterator["RandomFunction"]:
        """The same function without one of its instructions, for each of them; a loop keeps one."""
        for part in ("before", "body", "after"):
            seeds = getattr(self, part)
            for at in range(len(seeds)):
                if part != "body" or len(seeds) > 1:
                    rest: Any = {part: (*seeds[:at], *seeds[at + 1 :])}
                    yield replace(self, **rest)

    def lines(self, name: str) -> list[str]:
        dice = Random(self.shape)
        has_frame = dice.random() < 0.3
        registers = _registers(dice, has_frame)
        lines = []
        if dice.random() < 0.4:  # two pointers that surely overlap
            first, second = registers.pointers[:2]
            lines.append(f"add x{second}, x{first}, #{dice.choice((0, 4, 8, 16, 16, 24, 32, 64))}")
        lines += [f"movi v{v}.2d, #0" for v in registers.vectors if dice.random() < 0.3]
        lines += [instruction(seed, registers) for seed in self.before]
        registers = replace(registers, is_kernel=bool(self.body) and dice.random() < 0.4)
        if self.body:
            lines += counted_loop(dice, registers, self.body, f".LBB{name}_1")
            if dice.random() < 0.1:
                lines += counted_loop(dice, registers, tuple(reversed(self.body)), f".LBB{name}_2")
        lines += [instruction(seed, registers) for seed in self.after]
        return with_frame([*lines, *_live_out(dice, registers)], has_frame)


def function_text(name: str, lines: Sequence[str]) -> str:
    """A function around its lines, as LLVM prints it."""
    shown = [line if line.endswith(":") else "\t" + line.replace(" ", "\t", 1) for line in lines]
    head = ["\t.text", f"\t.globl\t{name}", "\t.p2align\t2", f"\t.type\t{name},@function", f"{name}:"]
    body = ["\t.cfi_startproc", "// %bb.0:", *shown]
    tail = [f".Lfunc_end_{name}:", f"\t.size\t{name}, .Lfunc_end_{name}-{name}", "\t.cfi_endproc"]
    return "\n".join([*head, *body, *tail, ""])


_SEED = st.integers(0, (1 << 24) - 1)  # hypothesis prefers small numbers in larger ranges


def _seeds(least: int, most: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(_SEED, min_size=least, max_size=most).map(tuple)


def blocks() -> st.SearchStrategy[RandomFunction]:
    """Straight-line functions of up to 30 random instructions."""
    return st.builds(RandomFunction, _SEED, _seeds(6, 30), st.just(()), st.just(()))


def loops() -> st.SearchStrategy[RandomFunction]:
    """Functions around a counted loop of up to 24 random instructions, at times two loops."""
    return st.builds(RandomFunction, _SEED, _seeds(0, 3), _seeds(3, 24), _seeds(0, 4))


def functions() -> st.SearchStrategy[RandomFunction]:
    """Two of three have loops."""
    return st.one_of(loops(), blocks(), loops())


def program_text(functions: Sequence[RandomFunction]) -> str:
    """Functions f0, f1, ... in one text: one call of the assembler serves all."""
    return "".join(function_text(f"f{number}", f.lines(f"f{number}")) for number, f in enumerate(functions))

"""Random AArch64 instructions over a few registers, each made from one integer.

Any register value is a valid address (mavcg.assembly.emulation maps memory where a function looks).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

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

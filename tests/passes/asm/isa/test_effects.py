"""Effects of instructions against two references: an emulator that shows what changes what, and capstone's tables.

Where the two differ, the Arm ARM (DDI 0487) decides; the exceptions name it.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mavcg.passes.asm.isa.effects import Effects
from mavcg.passes.asm.isa.syntax import ZERO, Mem, parse_instr
from mavcg.toolchain.zig import run_zig
from tests.passes.asm import instr_forms
from tests.passes.asm.isa.form_effects import effects_of, encodings

CODE, DATA, DATA_BYTES = 0x10000, 0x4000_0000, 0x80000
MASK64 = (1 << 64) - 1


class Probe:
    """One instruction at a time in an emulator, from any registers."""

    def __init__(self) -> None:
        unicorn = pytest.importorskip("unicorn", reason="the emulator is not installed")
        arm: Any = importlib.import_module("unicorn.arm64_const")
        self.uc: Any = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self.uc.ctl_set_cpu_model(arm.UC_CPU_ARM64_MAX)
        self.uc.mem_map(CODE, 0x1000)
        self.uc.mem_map(DATA, DATA_BYTES)
        self.uc.mem_write(DATA, random.Random(1).randbytes(DATA_BYTES))
        self.error = unicorn.UcError
        self.numbers = {f"x{i}": getattr(arm, f"UC_ARM64_REG_X{i}") for i in range(31)}
        self.numbers |= {f"v{i}": getattr(arm, f"UC_ARM64_REG_V{i}") for i in range(32)}
        self.numbers |= {"sp": arm.UC_ARM64_REG_SP, "nzcv": arm.UC_ARM64_REG_NZCV}
        self.loads: set[int] = set()
        self.stores: set[int] = set()
        self.unchanged_because: list[tuple[int, bytes]] = []
        self.write_kind = unicorn.UC_MEM_WRITE
        self.uc.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, self._on_access)

    def _on_access(self, uc: Any, kind: int, address: int, size: int, value: int, data: Any) -> None:
        if kind == self.write_kind:
            self.stores |= set(range(address, address + size))
            self.unchanged_because.append((address, bytes(uc.mem_read(address, size))))
        else:
            self.loads |= set(range(address, address + size))

    def load(self, code: bytes) -> None:
        self.uc.mem_write(CODE, code)
        self.uc.ctl_remove_cache(CODE, CODE + 4)

    def run(self, state: dict[str, int]) -> tuple[dict[str, int], object]:
        """Registers afterwards, and what was loaded and stored."""
        self.loads, self.stores, self.unchanged_because = set(), set(), []
        for name, value in state.items():
            self.uc.reg_write(self.numbers[name], value << 28 if name == "nzcv" else value)
        self.uc.emu_start(CODE, CODE + 4, count=1)
        after = {name: self.uc.reg_read(self.numbers[name]) for name in state}
        after["nzcv"] >>= 28
        stored = {at: self.uc.mem_read(at, 1)[0] for at in self.stores}
        for address, old in reversed(self.unchanged_because):
            self.uc.mem_write(address, old)
        return after, (frozenset(self.loads), tuple(sorted(stored.items())))


NAMED = ("x0", "x1", "x2", "x3", "sp", "nzcv", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v31")


FLAG_VALUES = (0, 4, 15, 9, 2, 8, 6, 1)


def values(name: str, memory: bool, seed: int, pick: random.Random) -> int:
    if name == "nzcv":
        return FLAG_VALUES[seed % 8]
    if name == "sp" or (memory and name in ("x0", "x1")):
        return DATA + 0x10000 + 16 * pick.randrange(64)
    if memory and name == "x2":
        return pick.randrange(256)
    if name[0] == "x":
        small = pick.randrange(64)
        return pick.choice((pick.getrandbits(64), small, -small & MASK64, pick.getrandbits(32)))
    kind = seed % 6
    if kind == 0:
        return pick.getrandbits(128)
    if kind == 1:  # small numbers in every lane size
        return int.from_bytes(bytes(pick.randrange(16) for _ in range(16)), "little")
    # Floating point of moderate size, for 32 (and 16) bits and for 64; then values that are often the same.
    size, exponent = (32, 0x38000000) if kind % 2 == 0 else (64, 0x38 << 56)
    keep = 0xFFFFFF if size == 32 else 0xFFFFFFFFFFFFF
    if kind < 4:
        return sum(((pick.getrandbits(size) & keep) | exponent) << at for at in range(0, 128, size))
    one = 0x3FF0000000000000 if kind == 5 else 0x3F800000
    return sum(pick.choice((0, 0, one, 1)) << at for at in range(0, 128, size))


def expected_bytes(effect: Effects, before: dict[str, int]) -> tuple[frozenset[int], frozenset[int]]:
    """Addresses of the bytes that are loaded and stored, from our own tables."""
    memory = effect.memory
    if memory is None:
        return frozenset(), frozenset()
    address: Mem = memory.address
    at = before[address.base.name]
    if address.mode != "post":
        at += address.offset or 0
        if address.index is not None:
            index = 0 if address.index.name == ZERO else before[address.index.name]
            extend, _, shift = (address.extend or "lsl #0").partition(" #")
            if address.index.view == "w":
                index &= 0xFFFFFFFF
                if extend == "sxtw" and index >> 31:
                    index -= 1 << 32
            at += index << int(shift or 0)
    touched = frozenset((at + i) & MASK64 for i in range(memory.bytes))
    return touched if memory.load else frozenset(), touched if memory.store else frozenset()


def complaints(probe: Probe, form: str, code: bytes) -> Iterator[str]:
    """Registers that the form names are changed one by one, all others at once."""
    effect = effects_of(form)
    reads: set[str] = set()
    writes: set[str] = set()
    probe.load(code)
    pick = random.Random(form)
    memory = effect.memory is not None
    named = sorted({reg.name for reg in parse_instr(form).registers() if reg.name != ZERO} | {"nzcv"})
    groups = [(name,) for name in named] + [tuple(name for name in NAMED if name not in named)]
    for seed in range(96):
        before = {name: values(name, memory, seed, pick) for name in NAMED}
        try:
            after, touched = probe.run(before)
        except probe.error as fault:
            yield f"{form}: the emulator refuses it: {fault}"
            return
        writes |= {name for name in NAMED if after[name] != before[name]}
        loads, stores = expected_bytes(effect, before)
        if (loads, stores) != (frozenset(probe.loads), frozenset(probe.stores)):
            yield f"{form}: touches {sorted(probe.loads | probe.stores)}, not {sorted(loads | stores)}"
            return
        for group in groups:
            other = {name: value for name, value in before.items() if name not in group}
            for name in group:
                new = before[name]
                while new == before[name]:
                    new = values(name, memory, pick.randrange(8) if name == "nzcv" else seed, pick)
                other[name] = new
            then, then_touched = probe.run(other)
            writes |= {name for name in NAMED if then[name] != other[name]}
            kept = {name for name in group if (after[name], then[name]) == (before[name], other[name])}
            if touched != then_touched or any(then[name] != after[name] for name in NAMED if name not in kept):
                reads |= set(group)
        if seed >= 2 and reads | UNOBSERVABLE.get(form, set()) == effect.reads() and writes == effect.writes():
            break
    reads |= UNOBSERVABLE.get(form, set())
    if reads != effect.reads():
        yield f"{form}: reads {sorted(reads)}, not {sorted(effect.reads())}"
    if writes != effect.writes():
        yield f"{form}: writes {sorted(writes)}, not {sorted(effect.writes())}"


GROUPS = {
    "integer": instr_forms.INTEGER,
    "memory": instr_forms.MEMORY,
    "float": instr_forms.FLOAT,
    "vector": instr_forms.VECTOR,
}


# What the instruction reads by the Arm ARM's pseudocode, though no result can differ by it here.
UNOBSERVABLE = {
    "and x0, xzr, x2": {"x2"},
    "ands x0, xzr, x2": {"x2"},
    "cmp sp, #5": {"sp"},  # the flags are the same for any address
    "cmn sp, #5": {"sp"},
    **{form: set(effects_of(form).reads()) for form in instr_forms.MEMORY if form.startswith("prf")},
}


@pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.long)], ids=["a twelfth", "all"])
@pytest.mark.parametrize("group", GROUPS)
def test_an_emulator_sees_the_same_reads_and_writes(group: str, every: int) -> None:
    probe = Probe()
    found = []
    for form in GROUPS[group][::every]:
        found += list(complaints(probe, form, encodings()[form]))
    assert not found, "\n".join(found)


def test_a_newer_emulator_sees_the_same_reads_of_new_instructions(tmp_path: Path) -> None:
    """Forms of Armv8.6 that unicorn lacks: one program tries each with one register changed after another."""
    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if qemu is None:
        pytest.skip("qemu-aarch64 is not installed")
    seeds = 4
    lines, inputs, pick = [], [], random.Random(8)
    for form in instr_forms.NEW:
        for seed in range(seeds):
            before = [values(f"v{i}", False, seed, pick) for i in range(4)]
            for changed in (None, 0, 1, 2, 3):
                row = [values("v0", False, seed, pick) if i == changed else value for i, value in enumerate(before)]
                inputs += row
                lines += ["ldp q0, q1, [x9], #32", "ldp q2, q3, [x9], #32", form]
                lines += [f"str q{i}, [x10], #16" for i in range(4)]
    size = 16 * len(inputs)
    data = "\n".join(f".quad {value & MASK64}, {value >> 64}" for value in inputs)
    source = f""".arch armv8.6-a+i8mm+bf16
.text
.globl _start
_start:
adrp x9, from
add x9, x9, :lo12:from
adrp x10, to
add x10, x10, :lo12:to
{chr(10).join(lines)}
mov x0, #1
adrp x1, to
add x1, x1, :lo12:to
ldr x2, =({size})
mov x8, #64
svc #0
mov x0, #0
mov x8, #93
svc #0
.data
.p2align 4
from:
{data}
.bss
.p2align 4
to: .zero {size}
"""
    (tmp_path / "new.s").write_text(source)
    run_zig("cc", ["-target", "aarch64-linux-musl", "-nostdlib", "-static", "new.s", "-o", "new"], "test", tmp_path)
    done = subprocess.run([qemu, "-cpu", "max", tmp_path / "new"], capture_output=True, check=True)
    outputs = [int.from_bytes(done.stdout[at : at + 16], "little") for at in range(0, size, 16)]
    rows = iter(zip(zip(*[iter(inputs)] * 4, strict=True), zip(*[iter(outputs)] * 4, strict=True), strict=True))
    for form in instr_forms.NEW:
        reads: set[str] = set()
        writes: set[str] = set()
        for _ in range(seeds):
            before_row, after = next(rows)
            writes |= {f"v{i}" for i in range(4) if after[i] != before_row[i]}
            for changed in range(4):
                _, then = next(rows)
                reads |= {f"v{changed}"} if then[0] != after[0] else set()
        effect = effects_of(form)
        assert (form, reads, writes) == (form, set(effect.reads()), set(effect.writes()))


# Registers that capstone 5 has among the reads and the Arm ARM, C6.2, has not.
CAPSTONE_READS = {
    "b.al": "nzcv",  # always: the flags do not count
    "b.nv": "nzcv",
    "cbz": "nzcv",
    "cbnz": "nzcv",
}


def test_capstone_sees_the_same_flow() -> None:
    capstone = pytest.importorskip("capstone", reason="capstone is not installed")
    decode = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    decode.detail = True
    kinds = {"": set(), "cond": {"jump"}, "jump": {"jump"}, "call": {"call"}, "return": {"return"}}
    for form in (*instr_forms.BRANCHES, *instr_forms.INTEGER, *instr_forms.MEMORY):
        effect = effects_of(form)
        (instr,) = decode.disasm(encodings()[form], CODE)
        groups = {decode.group_name(group) for group in instr.groups} & {"jump", "call", "return"}
        flow = "jump" if effect.flow == "indirect" else effect.flow
        assert (form, groups - ({"jump"} if flow == "call" else set())) == (form, kinds[flow])
        if effect.flow and effect.flow != "call":
            read = {decode.reg_name(register) for register in instr.regs_access()[0]}
            whole = {re.sub("^w", "x", name) for name in read} | ({"x30"} if form == "ret" else set())
            extra = {CAPSTONE_READS[instr.mnemonic]} if instr.mnemonic in CAPSTONE_READS else set()
            assert (form, whole - extra) == (form, set(effect.reads()))

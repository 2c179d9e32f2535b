"""The simulator of VTA does what VTA's own functional simulator does, and stops at faults."""

import hashlib
import random
from dataclasses import replace

import numpy as np
import pytest

from mavcg.accelerators.image.program import AccelProgram, AccelSegment
from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.isa.vta import ALU_OPS, VTA_FORMS, pack_micro_ops
from mavcg.accelerators.simulator.vta_core import STEP_OPERATIONS
from mavcg.accelerators.simulator.vta_functional import execute_vta_job
from mavcg.accelerators.target import find_target
from mavcg.errors import MavcgError
from mavcg.graph import Array

# SHA-256 of the features segment after the instructions of each seed, by the functional simulator of apache/tvm-vta
# (commit d4a15f6, default configuration), on 2026-12-01.
FOREIGN = {
    0: "ed503dae2bc0a6a8e2381ec572d63ff665a2ffe84a2fcdabe7b457fceb9ed7f0",
    1: "f3a24731ed5a33ce2d2b88408da83d103afe02cff6d43921a11743cbbc08da34",
    2: "5d9ecd946ffe696a4a9161a796cffd9f7e5536206155039f386ff705c440f0c6",
}
FEATURES, WEIGHTS = 1 << 14, 12
BYTES, SMALL = 64, 80  # accumulators with 8-bit numbers, and with distances for shifts


def random_program(seed: int) -> AccelProgram:
    """Instructions of all kinds with any loops, pads and overlaps, each after the one before it."""
    chance, numbers = random.Random(seed), random.Random(seed + 1)
    micro_ops = [(chance.randrange(40), chance.randrange(40), chance.randrange(WEIGHTS // 2)) for _ in range(64)]
    parameters = bytearray(pack_micro_ops(micro_ops))
    parameters += bytes(numbers.randrange(256) for _ in range(WEIGHTS * 256 + 16 * 64))
    parameters += b"".join(numbers.randrange(-16, 16).to_bytes(4, "little", signed=True) for _ in range(16 * 16))
    sums_at = (256 + WEIGHTS * 256) // 64
    ordered = [
        move("compute.load_uops", 0, 0, 1, 64, 64),
        move("load.weights", 0, 1, 1, WEIGHTS, WEIGHTS),
        move("load.inputs", 0, 0, 1, 96, 96),
        *(move("compute.load_sums", at, sums_at, 1, 16, 16) for at in (0, 16, 32, 48)),
        move("compute.load_bytes", BYTES, chance.randrange(100), 2, 8, 8),
        move("compute.load_sums", SMALL, sums_at + 16, 1, 16, 16),
    ]
    for _ in range(60):
        ordered.append(chance.choice((gemm, gemm, alu, alu, alu, load, store))(chance))
    ordered.append(move("store.outputs", 0, 900, 4, 16, 20))
    code = in_order([*ordered, AccelInstruction(VTA_FORMS["compute.finish"], {})])
    return AccelProgram(
        "random", find_target("vta"), code, bytes(parameters), FEATURES, (), (), (AccelSegment((), (), (), 0),)
    )


def made(mnemonic: str, **values: int) -> AccelInstruction:
    form = VTA_FORMS[mnemonic]
    return AccelInstruction(form, {field.name: values.get(field.name, 0) for field in form.fields})


def move(mnemonic: str, sram: int, dram: int, rows: int, columns: int, stride: int, **pads: int) -> AccelInstruction:
    return made(mnemonic, sram_base=sram, dram_base=dram, y_size=rows, x_size=columns, x_stride=stride, **pads)


def loops(chance: random.Random) -> dict[str, int]:
    first = chance.randrange(60)
    sizes = {"uop_bgn": first, "uop_end": first + chance.randint(1, 4)}
    sizes |= {"iter_out": chance.randint(1, 3), "iter_in": chance.randint(1, 4)}
    return sizes | {f"{side}_factor_{loop}": chance.randrange(4) for side in ("dst", "src") for loop in ("in", "out")}


def gemm(chance: random.Random) -> AccelInstruction:
    factors = {"wgt_factor_out": chance.randrange(2), "wgt_factor_in": chance.randrange(2)}
    return made("compute.gemm", **loops(chance), **factors, reset_reg=int(chance.random() < 0.15))


def alu(chance: random.Random) -> AccelInstruction:
    op, immediate = chance.choice(ALU_OPS), chance.random() < 0.5
    limits = {"shr": (-3, 15), "mul": (-128, 127)}.get(op, (-(1 << 15), (1 << 15) - 1))
    immediate |= op in ("shr", "mul")
    fields = {"alu_opcode": ALU_OPS.index(op), "use_imm": int(immediate), "imm": chance.randint(*limits)}
    return made("compute.alu", **loops(chance), **fields)


def load(chance: random.Random) -> AccelInstruction:
    pads = {name: chance.randrange(3) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
    mnemonic = chance.choice(("load.inputs", "compute.load_bytes"))
    return move(mnemonic, chance.randrange(12), chance.randrange(500), 2, 3, chance.randrange(1, 40), **pads)


def store(chance: random.Random) -> AccelInstruction:
    return move("store.outputs", chance.randrange(40), chance.randrange(500), 3, 5, chance.randrange(5, 60))


def in_order(code: list[AccelInstruction]) -> tuple[AccelInstruction, ...]:
    """The instructions with tokens from each to the next; between load and store stands one that does nothing."""
    chained: list[AccelInstruction] = []
    for one in code:
        if chained and abs(chained[-1].unit - one.unit) == 2:
            chained.append(made("compute.load_uops"))
        chained.append(one)
    for at, (before, after) in enumerate(zip(chained, chained[1:], strict=False)):
        if before.unit != after.unit:
            chained[at] = replace(chained[at], signal=1 << after.unit)
            chained[at + 1] = replace(after, wait=1 << before.unit)
    return tuple(chained)


def features(seed: int) -> Array:
    return np.frombuffer(random.Random(seed).randbytes(FEATURES), np.int8).copy()


@pytest.mark.parametrize("seed", FOREIGN)
def test_memory_is_as_the_foreign_simulator_leaves_it(seed: int) -> None:
    program, memory = random_program(seed), features(seed)

    execute_vta_job(program, memory)

    assert hashlib.sha256(memory.tobytes()).hexdigest() == FOREIGN[seed]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ([move("load.inputs", 2040, 0, 1, 9, 9)], "input memory: element 2048 of 2048"),
        ([move("load.inputs", 0, 1020, 1, 5, 5)], "byte 16399 of a segment of 16384"),
        ([move("store.outputs", 0, 0, 1, 1, 1)], "reads element 0, which nothing wrote"),
        ([made("compute.gemm", uop_end=1, iter_out=1, iter_in=1)], "micro-op memory: reads element 0"),
        ([replace(move("load.inputs", 0, 0, 1, 1, 1), wait=2)], r"deadlock: instructions 0 \(load.inputs\)"),
        ([made("compute.gemm", uop_end=8192, iter_out=16383, iter_in=16383)], "steps; 262144 at most"),
    ],
)
def test_faults_stop_a_program(code: list[AccelInstruction], message: str) -> None:
    program = replace(random_program(0), instructions=tuple(code))

    with pytest.raises(MavcgError, match=message):
        execute_vta_job(program, features(0))


LOOP = {"uop_end": 1, "iter_out": 4, "iter_in": 4}


@pytest.mark.parametrize(
    ("last", "operations"),
    [
        (made("compute.gemm", reset_reg=1, dst_factor_in=1, **LOOP), 16 * 256 + STEP_OPERATIONS),
        (made("compute.alu", use_imm=1, dst_factor_in=1, dst_factor_out=4, **LOOP), 16 * 16),
        # Steps that write what others have written are taken one after the other.
        (made("compute.alu", use_imm=1, dst_factor_in=1, **LOOP), 16 * 16 + 16 * STEP_OPERATIONS),
    ],
)
def test_a_job_has_a_limit_of_operations(last: AccelInstruction, operations: int) -> None:
    cleared = made("compute.gemm", reset_reg=1, dst_factor_in=1, dst_factor_out=4, **LOOP)
    code = (move("compute.load_uops", 0, 0, 1, 1, 1), cleared, last)
    program = replace(random_program(0), instructions=code)
    most = operations + 16 * 256 + STEP_OPERATIONS

    execute_vta_job(program, features(0), most_operations=most)
    with pytest.raises(MavcgError, match=rf"instruction 2 .*: takes .* operations, .* a job has {most - 1} at most"):
        execute_vta_job(program, features(0), most_operations=most - 1)

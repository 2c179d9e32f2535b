"""VTA's state and what its instructions do to it, in NumPy: memories on chip, micro-operations, 32-bit accumulators.

Source: VTA's hardware guide and published header (isa/vta.py). Shifts and products read their second operand in 5 and 8
bits, as the hardware does. Reading an element that nothing wrote is an error, which the hardware would not notice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mavcg.accelerators.isa.instruction import AccelInstruction
from mavcg.accelerators.isa.vta import (
    ALU_OPS,
    BLOCK,
    INPUTS,
    MICRO_OP_BITS,
    MICRO_OPS,
    OUTPUTS,
    SUMS,
    SUMS_OF_BYTES,
    WEIGHTS,
    VtaForm,
    VtaMemory,
)
from mavcg.errors import MavcgError
from mavcg.graph import Array

# Operations that take as long, in NumPy, as a step of the ALU by itself, or as a micro-operation of the array's.
STEP_OPERATIONS = 1 << 14
MOST_STEPS = 1 << 18  # of an instruction; more are a damaged program's: 2,048 accumulators, 128 blocks of inputs
_MEMORIES = {memory.number: memory for memory in (MICRO_OPS, WEIGHTS, INPUTS, SUMS, OUTPUTS, SUMS_OF_BYTES)}


@dataclass
class VtaCore:
    """The memories of a VTA, and the segments of DDR memory that it reads and writes.

    parameters, features: int8 [bytes]; only features are written. most_operations: limit of `operations`, which are the
    products, the ALU's results, and STEP_OPERATIONS for each step that NumPy takes by itself. micro_ops: [8192].
    inputs: [2048, 16]. weights: [1024, 16, 16], output channel first. sums: [2048, 16].
    """

    parameters: Array
    features: Array
    most_operations: int
    operations: int = 0
    micro_ops: Array = field(default_factory=lambda: np.zeros(MICRO_OPS.depth, np.uint32))
    inputs: Array = field(default_factory=lambda: np.zeros((INPUTS.depth, BLOCK), np.int8))
    weights: Array = field(default_factory=lambda: np.zeros((WEIGHTS.depth, BLOCK, BLOCK), np.int8))
    sums: Array = field(default_factory=lambda: np.zeros((SUMS.depth, BLOCK), np.int32))
    written: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.written = {m.name: np.zeros(m.depth, bool) for m in (MICRO_OPS, WEIGHTS, INPUTS, SUMS)}

    def run(self, instruction: AccelInstruction, location: str) -> None:
        """Execute one instruction. Raises: MavcgError naming location, memory and element."""
        form, v = instruction.form, instruction.values
        assert isinstance(form, VtaForm)
        if form.memory is not None:
            if v["x_size"] and v["y_size"]:
                memory = _MEMORIES[form.memory]
                (self._store if memory is OUTPUTS else self._load)(memory, v, location)
        elif form.mode != "finish":
            steps = v["iter_out"] * v["iter_in"] * (v["uop_end"] - v["uop_bgn"])
            if steps > MOST_STEPS:
                raise MavcgError(f"{location}: {steps} steps; {MOST_STEPS} at most; the program is damaged")
            if steps > 0:
                gemm = form.mode == "gemm"
                alone = v["uop_end"] - v["uop_bgn"] if gemm else 0
                self._count(steps * BLOCK * (BLOCK if gemm else 1) + alone * STEP_OPERATIONS, location)
                (self._gemm if gemm else self._alu)(v, location)

    def _count(self, operations: int, location: str) -> None:
        self.operations += operations
        if self.operations > self.most_operations:
            raise MavcgError(
                f"{location}: takes {operations:.4g} operations, with those before it {self.operations:.4g}; a job has "
                f"{self.most_operations} at most: if the program is not damaged, set more by --max-operations"
            )

    def _segment(self, memory: VtaMemory) -> Array:
        return self.features if memory in (INPUTS, OUTPUTS, SUMS_OF_BYTES) else self.parameters

    def _elements(self, memory: VtaMemory, v: Mapping[str, int], location: str) -> Array:
        """Return the bytes [rows, elements, bytes of an element] that a transfer names, as indices of its segment."""
        rows, columns = np.arange(v["y_size"])[:, None] * v["x_stride"], np.arange(v["x_size"])
        size = len(self._segment(memory))
        last = (v["dram_base"] + (v["y_size"] - 1) * v["x_stride"] + v["x_size"]) * memory.element_bytes
        if last > size:
            raise MavcgError(f"{location}: byte {last - 1} of a segment of {size}; the program is damaged")
        at = (v["dram_base"] + rows + columns)[..., None] * memory.element_bytes + np.arange(memory.element_bytes)
        return np.asarray(at)

    def _load(self, memory: VtaMemory, v: Mapping[str, int], location: str) -> None:
        pads = ((v["y_pad_0"], v["y_pad_1"]), (v["x_pad_0"], v["x_pad_1"]), (0, 0))
        count = (v["y_size"] + sum(pads[0])) * (v["x_size"] + sum(pads[1]))
        part = slice(v["sram_base"], v["sram_base"] + count)
        if part.stop > memory.depth:
            raise MavcgError(f"{location}: {memory.name}: element {part.stop - 1} of {memory.depth}")
        values = self._segment(memory)[self._elements(memory, v, location)]
        padded = np.ascontiguousarray(np.pad(values, pads)).reshape(-1, memory.element_bytes)
        if memory is SUMS_OF_BYTES:
            self.sums[part] = padded
        elif memory is SUMS:
            self.sums[part] = padded.view(np.int32)
        elif memory is WEIGHTS:
            self.weights[part] = padded.reshape(-1, BLOCK, BLOCK)
        elif memory is INPUTS:
            self.inputs[part] = padded
        else:
            self.micro_ops[part] = padded.view(np.uint32)[:, 0]
        self.written[memory.name][part] = True

    def _store(self, memory: VtaMemory, v: Mapping[str, int], location: str) -> None:
        if v["y_pad_0"] or v["y_pad_1"] or v["x_pad_0"] or v["x_pad_1"]:
            raise MavcgError(f"{location}: a store has no pads")
        end = v["sram_base"] + v["y_size"] * v["x_size"]
        if end > memory.depth:
            raise MavcgError(f"{location}: {memory.name}: element {end - 1} of {memory.depth}")
        indices, at = np.arange(v["sram_base"], end), self._elements(memory, v, location)
        values = self.sums[self._checked_indices(SUMS, indices, location)]
        self.features[at] = values.astype(np.int8).reshape(at.shape)  # the low 8 bits

    def _checked_indices(self, memory: VtaMemory, indices: Array, location: str) -> Array:
        """Return indices of a memory after a check that they lie in it and that something wrote them."""
        if indices.size and indices.max() >= memory.depth:
            raise MavcgError(f"{location}: {memory.name}: element {indices.max()} of {memory.depth}")
        unknown = ~self.written[memory.name][indices]
        if unknown.any():
            raise MavcgError(f"{location}: {memory.name}: reads element {indices[unknown][0]}, which nothing wrote")
        return indices

    def indices(self, v: Mapping[str, int], location: str) -> tuple[Array, Array, Array]:
        """Return the indices [outer, inner, micro-operation] of accumulators, inputs and weight blocks of a loop."""
        listed = self._checked_indices(MICRO_OPS, np.arange(v["uop_bgn"], v["uop_end"]), location)
        packed = self.micro_ops[listed].astype(np.int64)
        outer, inner = np.arange(v["iter_out"])[:, None, None], np.arange(v["iter_in"])[:, None]
        found, shift = [], 0
        for side, bits in zip(("dst", "src", "wgt"), MICRO_OP_BITS, strict=True):
            base = packed >> shift & ((1 << bits) - 1)
            factors = v.get(f"{side}_factor_out", 0), v.get(f"{side}_factor_in", 0)
            found.append(base + outer * factors[0] + inner * factors[1])
            shift += bits
        return found[0], found[1], found[2]

    def _gemm(self, v: Mapping[str, int], location: str) -> None:
        dst, src, wgt = self.indices(v, location)
        if v["reset_reg"]:
            self._within(dst, location)
            self.sums[dst.ravel()] = 0
            self.written[SUMS.name][dst.ravel()] = True
            return
        for at in range(dst.shape[2]):
            to = self._checked_indices(SUMS, dst[:, :, at].ravel(), location)
            vectors = self.inputs[self._checked_indices(INPUTS, src[:, :, at].ravel(), location)]
            matrices = wgt[:, :, at].ravel()
            blocks = self.weights[self._checked_indices(WEIGHTS, matrices, location)]
            # Products of 8 bits, 16 of them: exact in f32.
            if (matrices == matrices[0]).all():
                products = vectors.astype(np.float32) @ blocks[0].astype(np.float32).T
            else:
                products = np.einsum("ni,noi->no", vectors.astype(np.float32), blocks.astype(np.float32))
            np.add.at(self.sums, to, products.astype(np.int32))

    def _within(self, indices: Array, location: str) -> None:
        if indices.size and indices.max() >= SUMS.depth:
            raise MavcgError(f"{location}: {SUMS.name}: element {indices.max()} of {SUMS.depth}")

    def _alu(self, v: Mapping[str, int], location: str) -> None:
        dst, src, _ = self.indices(v, location)
        op, steps = ALU_OPS[v["alu_opcode"]], dst.size
        self._within(src, location)
        order_matters = len(np.unique(dst)) < steps or not (v["use_imm"] or set(dst.ravel()).isdisjoint(src.ravel()))
        if order_matters:
            self._count(steps * STEP_OPERATIONS, location)
        pieces = np.arange(steps)[:, None] if order_matters else np.arange(steps)[None]
        for piece in pieces:
            to = self._checked_indices(SUMS, dst.ravel()[piece], location)
            if v["use_imm"]:
                second = np.asarray(np.int32(v["imm"]))
            else:
                second = self.sums[self._checked_indices(SUMS, src.ravel()[piece], location)]
            self.sums[to] = alu(op, self.sums[to], second)


def alu(op: str, first: Array, second: Array) -> Array:
    """Return the result of an operation of the ALU on int32; sums and products keep their low 32 bits."""
    if op in ("min", "max"):
        return np.asarray((np.minimum if op == "min" else np.maximum)(first, second))
    wide = first.astype(np.int64)
    if op == "add":
        return (wide + second).astype(np.int32)
    if op == "mul":
        return (wide * second.astype(np.int8)).astype(np.int32)
    distance = _low_bits(second, 5)
    return np.where(distance >= 0, wide >> np.maximum(distance, 0), wide << np.maximum(-distance, 0)).astype(np.int32)


def _low_bits(values: Array, bits: int) -> Array:
    """Return the low bits of integers as two's complement."""
    return np.asarray(((values.astype(np.int64) + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1)))

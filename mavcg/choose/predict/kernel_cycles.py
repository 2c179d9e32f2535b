"""Cycles of kernels on a core: the number of executions of each block, times its cost on the core.

The counts are exact: they follow the control flow of the emitted kernel (block_counts.py). The cost of a block is
modelled:

- If the core has a timing profile, the kernel is compiled for it and its blocks are estimated by the pipeline model,
  single-block loops in their steady state. A block that the compiler merged into others costs its instruction mix.
- Otherwise (x86), it is the block's instruction mix at the core's rates (mix.py).

Not modelled: instructions that the compiler adds on x86 (spills, moves), overlap between the end of one block and the
beginning of the next, and caches (memory.py has these).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from llvmlite import ir

from mavcg.choose.lowering.kernel_code import KERNELS_PER_MODULE, UNPLANNED, kernel_flags, kernel_module, version_symbol
from mavcg.choose.predict.asm_blocks import BlockCost, BuiltLoop, block_costs, cycles_as_built
from mavcg.choose.predict.block_counts import DataDependent, count_blocks
from mavcg.choose.predict.line_traffic import Fills, Runs, fills, runs
from mavcg.choose.predict.loop_accesses import Loop, read_loops, successors, with_calls
from mavcg.choose.predict.mix import mixes_of
from mavcg.files.scratch import scratch_folder
from mavcg.hardware.core_model import CoreModel
from mavcg.hardware.issue_rates import InstructionMix, IssueRates
from mavcg.hardware.machine import Machine
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.registry import emit
from mavcg.profiles.cost_fits import all_cores_fit
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.tile_plan import MacroTile, TilePlan
from mavcg.toolchain.codegen import CodegenJob, compile_module
from mavcg.toolchain.target import Target

PIPELINE, RATES, WORK = "pipeline model", "instruction rates", "elementary operations"
_KEEP_NAMES = ("-fno-discard-value-names", "-fverbose-asm")


@dataclass(frozen=True)
class KernelLines:
    """Lines that a kernel brings into each cache, by operand and whether stores bring them; how they follow one
    another (line_traffic.py)."""

    fills: tuple[Fills, ...]
    runs: Mapping[str, Runs]


@dataclass(frozen=True)
class KernelModel:
    """Model of a kernel on a core.

    how: PIPELINE, RATES or WORK. inner_loops: body of each single-block loop -> its head. by_work: cycles per row if
    the control flow depends on data. loaded_iterations: of the kernel's spec, by the size of its weights.
    """

    name: str
    how: str
    function: ir.Function
    block_cycles: Mapping[str, float]
    inner_loops: Mapping[str, str]
    miss_cycles: float
    by_work: float
    loaded_iterations: Callable[[int], float | None] = lambda weight_bytes: None
    _found: dict[tuple[int, int, float | None], float] = field(default_factory=dict, compare=False, repr=False)
    _loops: dict[tuple[object, ...], Loop | None] = field(default_factory=dict, compare=False, repr=False)
    _fills: dict[tuple[object, ...], Fills] = field(default_factory=dict, compare=False, repr=False)
    _runs: dict[tuple[object, ...], Mapping[str, Runs]] = field(default_factory=dict, compare=False, repr=False)

    def lines(
        self,
        rows: int,
        call_rows: int,
        weight_bytes: int,
        level_bytes: Sequence[int],
        most: Mapping[str, float],
        miss_slots: int,
    ) -> "KernelLines | None":
        """Return the lines that all calls for these rows bring into caches; None if addresses or loops are unknown.

        level_bytes: size of each cache. most: lines of each operand.
        """
        key = rows, call_rows, self.loaded_iterations(weight_bytes)
        if key not in self._loops:
            self._loops[key] = self._read_loops(*key)
        loops = self._loops[key]
        if loops is None:
            return None
        filled = []
        for size in level_bytes:  # one by one: cores that work together share the last level only
            of_level = (*key, size, *most.items())
            if of_level not in self._fills:
                self._fills[of_level] = fills(loops, size, most)
            filled.append(self._fills[of_level])
        if (*key, miss_slots) not in self._runs:
            self._runs[*key, miss_slots] = runs(loops, miss_slots)
        return KernelLines(tuple(filled), self._runs[*key, miss_slots])

    def _read_loops(self, rows: int, call_rows: int, loaded_iterations: float | None) -> Loop | None:
        first = min(call_rows, rows)
        if self.how == WORK or not first:
            return None
        try:
            return with_calls(read_loops(self.function, 0, first, loaded_iterations), rows / first)
        except DataDependent:
            return None

    def range_cycles(self, begin: int, end: int, weight_bytes: int = 0) -> float:
        """Return the cycles of one call for these rows, with `weight_bytes` of weights."""
        key = begin, end, self.loaded_iterations(weight_bytes)
        if key not in self._found:
            self._found[key] = self._range(*key)
        return self._found[key]

    def _range(self, begin: int, end: int, loaded_iterations: float | None) -> float:
        if begin >= end:
            return 0.0
        if self.how == WORK:
            return self.by_work * (end - begin)
        try:
            counts = count_blocks(self.function, begin, end, loaded_iterations)
        except DataDependent:
            return self.by_work * (end - begin)
        cycles = sum(counts[name] * cycles for name, cycles in self.block_cycles.items())
        predicted = all_cores_fit().branches.predicted_iterations
        for body, head in self.inner_loops.items():
            entered = counts[head] - counts[body]
            if entered and counts[body] > predicted * entered:
                cycles += entered * self.miss_cycles
        return cycles


# Models of kernels by the kernel's name, its macro-tile, the machine that it is emitted for, the core and its rates.
KnownModels = dict[tuple[str, MacroTile | None, Machine, str, IssueRates], KernelModel]


def task_cycles(kernel: KernelModel, rows: int, call_rows: int, weight_bytes: int = 0) -> tuple[float, float, int]:
    """Return the cycles of a whole task of `call_rows` rows, of the last task, and the number of tasks.

    weight_bytes: as range_cycles has it.
    """
    tasks = -(-rows // call_rows)
    first = kernel.range_cycles(0, min(call_rows, rows), weight_bytes)
    return first, kernel.range_cycles((tasks - 1) * call_rows, rows, weight_bytes), tasks


def kernel_models(
    specs: Sequence[KernelSpec],
    model: CoreModel,
    target: Target,
    workers: int = 1,
    progress: Callable[[str], None] = lambda message: None,
    built: Mapping[str, Sequence[BuiltLoop]] | None = None,
    plan: TilePlan = UNPLANNED,
    known: KnownModels | None = None,
) -> dict[str, KernelModel]:
    """Return the model of every spec on a core, by kernel name.

    built: loops of a library's kernels after the machine passes (built_loops). plan: macro-tiles. known: models of
    earlier calls with the same `built`, which gets the new ones. Raises: ToolError if the compiler rejects a kernel.
    """
    known = {} if known is None else known
    names = {kernel_name(spec): spec for spec in specs}
    core = "" if model.core is None else model.core.name
    keys = {name: (name, plan.of(name, model.label), model.machine, core, model.rates) for name in names}
    specs = [spec for name, spec in names.items() if keys[name] not in known]
    blocks: dict[str, dict[str, BlockCost]] = {}
    if model.timing is not None:
        with scratch_folder("mavcg-predict-") as folder, ThreadPoolExecutor(workers) as pool:
            parts = [specs[i : i + KERNELS_PER_MODULE] for i in range(0, len(specs), KERNELS_PER_MODULE)]
            files = [Path(folder) / f"kernels-{number}.s" for number in range(len(parts))]
            jobs = [
                pool.submit(_compile_costs, part, file, model, target, plan, progress)
                for part, file in zip(parts, files, strict=True)
            ]
            for job in jobs:
                blocks.update(job.result())
    for name in map(kernel_name, specs):
        cycles = cycles_as_built(blocks.get(name, {}), (built or {}).get(name, ()))
        known[keys[name]] = _model(names[name], model, plan.of(name, model.label), cycles)
    return {name: known[key] for name, key in keys.items()}


def _model(
    spec: KernelSpec, model: CoreModel, macro: MacroTile | None, block_cycles: Mapping[str, float]
) -> KernelModel:
    module = ir.Module("kernels")
    function = emit(module, spec, model.machine, macro)
    cycles = {}
    for name, mix in mixes_of(function, model.machine).items():
        if name in block_cycles:
            cycles[name] = block_cycles[name]
        elif mix.moves_data or (model.timing is None and not _is_head(name, mix)):
            cycles[name] = mix.cycles(model.rates)
    inner = {
        block.name: block.terminator.operands[0].name
        for block in function.blocks
        if isinstance(block.terminator, ir.instructions.Branch)
        and any(successor is block for successor in successors(block.terminator.operands[0]))
    }
    lanes = model.machine.vector_bytes / 4
    by_work = spec.work / max(1, spec.rows) / (lanes * model.rates.vector_per_cycle)
    how = PIPELINE if block_cycles else RATES
    if not _countable(function, spec):
        how = WORK
    return KernelModel(
        kernel_name(spec), how, function, cycles, inner, model.rates.miss_cycles, by_work, spec.loaded_iterations
    )


def _countable(function: ir.Function, spec: KernelSpec) -> bool:
    try:
        count_blocks(function, 0, min(1, spec.rows), spec.loaded_iterations(0))
    except DataDependent:
        return False
    return True


def _is_head(name: str, mix: InstructionMix) -> bool:
    """True for a loop head, which the compiler merges into the body."""
    return not mix.moves_data and re.search(r"_head(\.\d+)?$", name) is not None


def _compile_costs(
    specs: Sequence[KernelSpec],
    out: Path,
    model: CoreModel,
    target: Target,
    plan: TilePlan,
    progress: Callable[[str], None],
) -> dict[str, dict[str, BlockCost]]:
    """Return kernel -> block name -> cost, of compiled kernels."""
    assert model.timing is not None
    text = kernel_module(specs, model.machine, model.label, target, plan)
    action = f"compiling kernels for {model.label}"
    progress(action)
    flags = (*kernel_flags(model.machine), *_KEEP_NAMES)
    compile_module(CodegenJob(text, target, action, opt_level="2", emit="asm", flags=flags), out)
    symbols = {version_symbol(kernel_name(spec), model.label): kernel_name(spec) for spec in specs}
    return block_costs(out.read_text(), symbols, model.timing)

"""Run a primitive on random numbers, and compare it with the definition of a convolution in float64.

For the error, and the size of the numbers, see docs/design/primitives.md, "The error of a primitive".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mavcg.errors import MavcgError
from mavcg.kernels.primitives.sparse.family import mask_of
from mavcg.lab.trials.definition import batch_to_layout, from_layout, reference
from mavcg.lab.trials.jobs import GuardedMemory, TrialJob, all_rows, memory, random_ranges
from mavcg.lab.trials.run import run_jobs
from mavcg.runtime.machines import block_of
from mavcg.specs.kernel import Array, Machine
from mavcg.specs.kernel_symbol import pair_text
from mavcg.specs.primitive import Epilogue, Lowering, Primitive, Scenario

PLAIN = Epilogue()
# Sums before the activation lie around MIDDLE, most of them within twice SPREAD. An activation that is flat below 0 and
# above 6, or approaches its limits there, therefore does not hide the errors of most outputs.
MIDDLE, SPREAD = 2.0, 2.0
MOST_ELEMENTS = 1 << 27  # of an image or of weights: 512 MiB of f32


@dataclass(frozen=True)
class CheckCase:
    """A primitive with a scenario to compute, and the seed of the numbers.

    block: channels per block of CHWc layouts. ranges: True to compute the rows of its stages in random ranges and
    order, False for all rows at once.
    """

    primitive: Primitive
    scenario: Scenario
    epilogue: Epilogue = PLAIN
    seed: int = 0
    block: int = 16
    ranges: bool = True


@dataclass(frozen=True)
class Checked:
    """The result of a case.

    max_error: largest absolute error, divided by the largest absolute sum before the activation, or output if that is
    larger. bound: bound that the primitive states. faults: other faults, as text: writes outside of the results, NaNs.
    output: [batch, m, out_h, out_w], f32.
    """

    case: CheckCase
    max_error: float
    bound: float
    faults: tuple[str, ...]
    output: Array

    @property
    def ok(self) -> bool:
        """Return True if there is no fault and the error is within its bound."""
        return not self.faults and self.max_error <= self.bound

    @property
    def bits(self) -> bytes:
        """Return the bits of the output, to compare them with another core's."""
        return self.output.tobytes()


def check(
    primitive: Primitive, scenario: Scenario, machine: Machine, epilogue: Epilogue = PLAIN, seed: int = 0
) -> Checked:
    """Run one case on a machine, with the block length of its architecture's libraries.

    Raises: MavcgError if the primitive does not apply, and if this machine cannot run the machine's code.
    """
    return check_all((CheckCase(primitive, scenario, epilogue, seed, block_of(machine)),), machine)[0]


def check_all(cases: Sequence[CheckCase], machine: Machine, optimised: bool = True) -> list[Checked]:
    """Run many cases; those of an emulated machine in one program. optimised: as in run.run_jobs."""
    prepared = [_prepare(case) for case in cases]
    run_jobs([job for job, _ in prepared], machine, optimised)
    return [_check(case, job, numbers) for case, (job, numbers) in zip(cases, prepared, strict=True)]


def verify_scenario(scenario: Scenario) -> None:
    """Raise MavcgError for a scenario that is not a convolution."""
    s = scenario
    stride, kernel, pad = (pair_text(pair) for pair in (s.strides, s.kernel, s.pads))
    words = f"scenario C={s.c}, H={s.h}, W={s.w}, stride={stride}, K={kernel}, M={s.m}, pad={pad}, groups={s.groups}"
    for name in ("c", "h", "w", "m", "groups", "batch"):
        if getattr(s, name) < 1:
            raise MavcgError(f"{words}: {name.upper()} is {getattr(s, name)}; give 1 or more")
    for window in s.windows:
        for name in ("stride", "k", "dilation"):
            if getattr(window, name) < 1:
                raise MavcgError(f"{words}: {name.upper()} is {getattr(window, name)}; give 1 or more")
        if window.pad < 0:
            raise MavcgError(f"{words}: pad is {window.pad}; give 0 or more")
    if s.c % s.groups or s.m % s.groups:
        raise MavcgError(f"{words}: {s.groups} groups do not divide {s.c} and {s.m} channels; give a common divisor")
    if s.out_h < 1 or s.out_w < 1:
        raise MavcgError(f"{words}: the kernel is larger than the padded image; give a smaller K or a larger pad")
    if max(s.batch * s.c * s.padded_pixels, s.batch * s.m * s.out_h * s.out_w, s.m * s.c * s.taps) > MOST_ELEMENTS:
        raise MavcgError(f"{words}: is too large; give images and weights of at most {MOST_ELEMENTS} elements")


@dataclass(frozen=True)
class _Numbers:
    x: Array  # [batch, c, h, w]
    weights: Array  # [m, c / groups, k, k]
    bias: Array | None
    residual: Array | None  # [batch, m, out_h, out_w]


def prepared_job(case: CheckCase) -> TrialJob:
    """Return the job of a case, with its memory filled. Raises: MavcgError if the primitive does not apply."""
    return _prepare(case)[0]


def _prepare(case: CheckCase) -> tuple[TrialJob, _Numbers]:
    s, epilogue, primitive = case.scenario, case.epilogue, case.primitive
    verify_scenario(s)
    if not primitive.applies(s):
        raise MavcgError(
            f"{primitive.name}: does not compute this scenario; `mavcg primitives` says what it applies to"
        )
    rng = np.random.default_rng(case.seed)

    def numbers(*shape: int) -> Array:
        return rng.uniform(-1, 1, shape).astype(np.float32)

    factor, middle = (1.0, 0.0) if epilogue.act == "none" else (weight_factor(s), MIDDLE)
    given = _Numbers(
        numbers(s.batch, s.c, s.h, s.w),
        numbers(*s.weights_shape) * np.float32(factor) * mask_of(s, case.seed),
        numbers(s.m) + np.float32(middle) if epilogue.bias else None,
        numbers(s.batch, s.m, s.out_h, s.out_w) if epilogue.residual else None,
    )
    lowering = primitive.lower(s, given.weights, epilogue, case.block)
    operands = {
        "x": _fill(batch_to_layout(given.x, primitive.layout_in, case.block)),
        "weights": _fill(lowering.weights),
        "out": memory(
            batch_to_layout(np.zeros((s.batch, s.m, s.out_h, s.out_w)), primitive.layout_out, case.block).nbytes
        ),
        "workspace": memory(lowering.workspace_bytes),
    }
    if given.bias is not None:
        operands["bias"] = _fill(given.bias)
    if given.residual is not None:
        operands["residual"] = _fill(batch_to_layout(given.residual, primitive.layout_out, case.block))
    calls = random_ranges(lowering, case.seed) if case.ranges else all_rows(lowering)
    return TrialJob(lowering, operands, calls), given


def weight_factor(s: Scenario) -> float:
    """Return a power of two for the weights, so that sums are about SPREAD; it changes no rounding.

    Products of two numbers from -1 to 1 have a standard deviation of 1/3, and sums of n of them sqrt(n) / 3.
    """
    terms = s.c // s.groups * s.taps
    return float(2.0 ** round(math.log2(3 * SPREAD / math.sqrt(terms))))


def _fill(array: Array) -> GuardedMemory:
    return memory(array.nbytes, array)


def _check(case: CheckCase, job: TrialJob, numbers: _Numbers) -> Checked:
    s, primitive = case.scenario, case.primitive
    raw = np.frombuffer(job.operands["out"].inner.tobytes(), np.float32)
    shape = (s.m, s.out_h, s.out_w)
    output = np.stack([from_layout(image, primitive.layout_out, shape, case.block) for image in np.split(raw, s.batch)])
    written_around = [base for base, operand in job.operands.items() if not operand.guards_hold]
    faults = [f"{base}: written outside of its bytes" for base in written_around]
    constant = {"x": batch_to_layout(numbers.x, primitive.layout_in, case.block), "weights": job.lowering.weights}
    if numbers.bias is not None:
        constant["bias"] = numbers.bias
    if numbers.residual is not None:
        constant["residual"] = batch_to_layout(numbers.residual, primitive.layout_out, case.block)
    for base, before in constant.items():
        if job.operands[base].inner.tobytes() != np.ascontiguousarray(before).tobytes():
            faults.append(f"{base}: was written")
    if batch_to_layout(output, primitive.layout_out, case.block).tobytes() != raw.tobytes():
        faults.append("out: the padding of the last block of channels is not zero")
    faults += _workspace_faults(primitive, s, job.lowering)
    exact, before_act = reference(s, numbers.x, numbers.weights, numbers.bias, numbers.residual, case.epilogue)
    if not np.isfinite(output).all():
        faults.append("out: contains numbers that are not finite")
        return Checked(case, float("inf"), primitive.error_bound, tuple(faults), output)
    scale = max(float(np.abs(exact).max()), float(np.abs(before_act).max())) or 1.0
    error = float(np.abs(output - exact).max()) / scale
    return Checked(case, error, primitive.error_bound, tuple(faults), output)


def _workspace_faults(primitive: Primitive, scenario: Scenario, lowering: Lowering) -> list[str]:
    stated = primitive.workspace_bytes(scenario)
    if lowering.workspace_bytes > stated:
        return [f"workspace: takes {lowering.workspace_bytes} bytes, but {stated} are stated"]
    return []

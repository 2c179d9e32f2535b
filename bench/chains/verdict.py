"""The verdict on a chain by three judges: shapes of all tensors first, then the outputs' elements.

A difference names who is alone. mavcg alone, or three that differ, is a fault. Another who is alone, or a difference
that rounding explains, is a class of its own, and each class is a condition that is checked here:

- *onnxruntime (LiteRT) alone*: mavcg is within the bound of the result in double precision, and the runtime is not. The
  operator is the first whose result, computed in double precision from the runtime's own arguments, is outside its
  bound; "no single operator" if there is none.
- *NumPy alone*: mavcg and the runtime agree within the bound, or in every digit that the type has.
- *conditioned*: all are within the bound, which is wider than the tight one of 168 units in the last place.
- *the runtime's own spread*: the runtime's optimised and unoptimised results differ as much at that element.
- *extreme numbers*: an element that is not finite in one of the three results, behind an argument that is not finite
  or so large that the order of a sum decides about overflow.

The bounds follow from the type, the depth and the condition of the chain (bench/differential/truth.py). An element
whose bound is infinite, because rounding errors move it by as much as its neighbours are large, is undetermined: these
are counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.chains import judges
from bench.chains.chain import Chain, pruned
from bench.differential.part import Array
from bench.differential.truth import Bounded
from bench.differential.verdict import TIGHT

SAME, EXPLAINED, DIFFERENT, REFUSED, SKIPPED, CRASH, HANG = (
    "same",
    "explained",
    "different",
    "refused",
    "skipped",
    "crash",
    "hang",
)
FAULTS = (DIFFERENT, CRASH, HANG)
SAMPLES_OF_A_FAULT = 160  # before a difference is called one: rare flips of a step need more samples to be seen

Shapes = Mapping[str, tuple[tuple[int, ...], str]]


@dataclass(frozen=True)
class Verdict:
    """Status of a chain and its class. elements: of its outputs; undetermined: those without a finite bound."""

    status: str
    reason: str = ""
    elements: int = 0
    undetermined: int = 0


@dataclass(frozen=True)
class Opinions:
    """The judges' results of all tensors of a chain: by the runtime (None if it refuses), and in double precision."""

    runtime: Mapping[str, Array] | None
    numpy: Mapping[str, Bounded] | None


def opinions_of(chain: Chain) -> Opinions:
    """Ask both judges."""
    try:
        runtime: Mapping[str, Array] | None = judges.by_runtime(chain)
    except Exception:  # the runtime's own kinds
        runtime = None
    return Opinions(runtime, judges.by_numpy(chain))


def shape_verdict(chain: Chain, shapes: Shapes, opinions: Opinions) -> Verdict | None:
    """Compare the shape and type of every tensor; None if all agree.

    shapes: those that mavcg infers, by name; an operator's inner tensors and those that it computes at build time are
    not among them.
    """
    found: Verdict | None = None
    for node in chain.nodes:
        for name in node.outputs:
            runtime = None if opinions.runtime is None else opinions.runtime.get(name)
            exact = None if opinions.numpy is None else opinions.numpy.get(name)
            own = shapes.get(name)
            other = None if runtime is None else runtime.shape
            reference = None if exact is None else exact.value.shape
            if own is not None and own[0] not in (other, reference) and (other, reference) != (None, None):
                alone = f"{judges.MAVCG} alone" if other == reference or None in (other, reference) else "no two agree"
                return Verdict(DIFFERENT, f"shape of {node.op}: {alone}: {own[0]}, {other}, {reference}")
            if own is not None and runtime is not None and own[1] != runtime.dtype.name:
                return Verdict(DIFFERENT, f"type of {node.op}: {own[1]} where {runtime.dtype.name} is expected")
            if own is not None and other is not None and reference is not None and other != reference:
                alone = judges.NUMPY if own[0] == other else judges.runtime_name(chain)
                found = Verdict(EXPLAINED, f"shape: {alone} alone: {node.op}")
    return found


def verdict(chain: Chain, ours: Sequence[Array], opinions: Opinions) -> Verdict:
    """Compare mavcg's outputs with both judges' results."""
    if opinions.runtime is None and opinions.numpy is None:
        return Verdict(SKIPPED, "no judge computes it")
    found = _verdict(chain, ours, opinions)
    if found.status == DIFFERENT and opinions.numpy is not None:
        more = judges.by_numpy(chain, SAMPLES_OF_A_FAULT)
        found = _verdict(chain, ours, replace(opinions, numpy=more))
    if found.status == DIFFERENT and opinions.runtime is not None and _in_spread(chain, ours, opinions):
        name = judges.runtime_name(chain)
        return replace(found, status=EXPLAINED, reason=f"{name}'s optimised and unoptimised results differ as much")
    return found


def _verdict(chain: Chain, ours: Sequence[Array], opinions: Opinions) -> Verdict:
    worst = Verdict(SAME)
    elements = undetermined = 0
    for name, have in zip(chain.outputs, ours, strict=True):
        runtime = None if opinions.runtime is None else opinions.runtime.get(name)
        exact = None if opinions.numpy is None else opinions.numpy.get(name)
        elements += have.size
        undetermined += int(np.isinf(exact.bound).sum()) if exact is not None else have.size
        found = _of_output(chain, name, have, runtime, exact, opinions)
        worst = max(worst, found, key=lambda v: (SAME, EXPLAINED, DIFFERENT).index(v.status))
    return replace(worst, elements=elements, undetermined=undetermined)


def near(a: Array, b: Array, bound: Array | float) -> Array:
    """Return where two arrays of float64 agree within a bound."""
    with np.errstate(all="ignore"):
        alike = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= bound) | np.isposinf(bound)
    return np.asarray(alike)


def tight(have: Array, like: Array) -> float:
    """Return the bound within which two results of a type are called the same."""
    if have.dtype.kind != "f":
        return 0.0
    finite = like[np.isfinite(like)]
    return TIGHT * float(np.finfo(have.dtype).eps) * max(float(np.max(np.abs(finite), initial=0)), 1e-3)


def _of_output(
    chain: Chain, name: str, have: Array, runtime: Array | None, exact: Bounded | None, opinions: Opinions
) -> Verdict:
    """Compare one output."""
    op = next(node.op for node in chain.nodes if name in node.outputs)
    a = have.astype(np.float64)
    judged = [x for x in (runtime, None if exact is None else exact.value) if x is not None]
    if judged and all(x.shape != have.shape for x in judged):
        others = ", ".join(str(x.shape) for x in judged)
        return Verdict(DIFFERENT, f"shape of {op}: {judges.MAVCG} alone: {have.shape}, {others}")
    if runtime is not None and runtime.shape != have.shape:
        runtime = None
    if exact is not None and exact.value.shape != have.shape:
        exact = None
    b = None if runtime is None else runtime.astype(np.float64)
    close = np.zeros(a.shape, bool) if b is None else near(a, b, tight(have, b))
    if exact is None:
        if close.all():
            return Verdict(SAME)
        return Verdict(DIFFERENT, f"{op}: {judges.MAVCG} and {judges.runtime_name(chain)} differ; NumPy lacks it")
    right = near(a, exact.value, exact.bound)
    if b is None:
        wrong = ~right
        theirs_right = np.ones(a.shape, bool)
    else:
        theirs_right = near(b, exact.value, exact.bound)
        wrong = ~right & ~near(a, b, exact.bound) & ~(close & ~theirs_right)
    if wrong.any():
        finite = np.isfinite(a) & np.isfinite(exact.value) & (np.isfinite(b) if b is not None else True)
        if exact.large and not (wrong & finite).any():
            return Verdict(EXPLAINED, f"extreme numbers: {op}")
        who = f"{judges.MAVCG} alone" if bool(theirs_right[wrong].all()) else "no two agree"
        return Verdict(DIFFERENT, f"{op}: {who} in {int(wrong.sum())} of {a.size} elements")
    if not right.all():
        return Verdict(EXPLAINED, f"{judges.NUMPY} alone: {op}")
    if (~theirs_right & ~close).any() and opinions.runtime is not None:
        return Verdict(EXPLAINED, f"{judges.runtime_name(chain)} alone: {_culprit(chain, opinions.runtime)}")
    if b is not None and not close.all():
        return Verdict(EXPLAINED, "conditioned: all within the bound")
    return Verdict(SAME)


def _in_spread(chain: Chain, ours: Sequence[Array], opinions: Opinions) -> bool:
    """Return True if the runtime's own two results differ as much as mavcg's from them, where that is wrong."""
    try:
        optimised = judges.by_optimised_runtime(chain)
    except Exception:  # the runtime's own kinds
        return False
    assert opinions.runtime is not None
    for name, have in zip(chain.outputs, ours, strict=True):
        plain, other, a = (x.astype(np.float64) for x in (opinions.runtime[name], optimised[name], have))
        if not a.shape == plain.shape == other.shape:
            return False
        exact = None if opinions.numpy is None else opinions.numpy[name]
        right = near(a, plain, 0.0) if exact is None else near(a, exact.value, exact.bound)
        if not (right | near(a, plain, np.abs(plain - other))).all():
            return False
    return True


def _culprit(chain: Chain, runtime: Mapping[str, Array]) -> str:
    """Return the first operator whose result by the runtime is wrong for the runtime's own arguments."""
    for node in chain.nodes:
        alone = single(chain, node.outputs, runtime)
        exact = judges.by_numpy(alone) if alone is not None else None
        for name in node.outputs if exact is not None else ():
            if (
                name in runtime
                and exact is not None
                and name in exact
                and exact[name].value.shape == runtime[name].shape
            ):
                if not near(runtime[name].astype(np.float64), exact[name].value, exact[name].bound).all():
                    return node.op
    return "no single operator"


def single(chain: Chain, outputs: tuple[str, ...], values: Mapping[str, Array]) -> Chain | None:
    """Return the one operator with these outputs as a chain of its own, on the given values of its arguments."""
    (node,) = (node for node in chain.nodes if node.outputs == outputs)
    given = [name for name in node.inputs if name and name not in chain.constants]
    if any(name not in values and name not in chain.inputs for name in given):
        return None
    inputs = {name: values[name] if name in values else chain.inputs[name] for name in given}
    made = tuple(name for name in outputs if name)
    return pruned(replace(chain, nodes=(node,), inputs=inputs, outputs=made))

"""The class of a function by what its machine code computes: products summed up, largest values, copies, and so on."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from mavcg.program.profiling.clonable import is_kernel, is_nameless, is_system
from mavcg.program.profiling.code_loops import FunctionCode, InnermostLoop, function_code, innermost_loops
from mavcg.program.profiling.function_classes import COPY, DEPTHWISE, ELEMENTWISE, GEMM, NORM, PACK, POOL
from mavcg.program.profiling.loop_values import LoopFacts, LoopValue, kind_of, loop_facts, operands_of, register_of
from mavcg.program.profiling.ranking import RankedFunction

_FILTER_TAPS = 5  # products summed to one stored value, from which on it is a filter and not a colour conversion
_REUSE = 2.0  # multiply-adds for each load, from which on a straight sum of products is a product of matrices
_FLOAT_PRODUCT = re.compile(r"v?mul[sp][sd]|fmul")
_WINDOW = 3  # values compared to one stored value, from which on it is a window's largest


def code_classifier(binaries: Sequence[Path]) -> Callable[[RankedFunction], str]:
    """Return a function that classifies a ranked function by its code; it returns "" where no code decides.

    binaries: files to read, by file name of the profile's objects; other objects are read where their path is here.
    """
    given = {path.name: path for path in binaries}

    def classify(function: RankedFunction) -> str:
        path = given.get(Path(function.object).name)
        if path is None and not (is_kernel(function.object) or is_system(function.object)):
            path = Path(function.object) if Path(function.object).is_absolute() else None
        if path is None or is_nameless(function.symbol):
            return ""
        code = function_code(path, function.symbol)
        return class_of_code(code) if code is not None else ""

    return classify


def class_of_code(code: FunctionCode) -> str:
    """Return the class of a function by its innermost loops; "" where they do not decide.

    Of the loops' classes the first of these counts: matrix products, depthwise, normalisation (sums or largest values,
    then another loop that divides or scales), pooling, element-wise, packing, copies.
    """
    loops = [(loop, loop_facts(loop.body)) for loop in innermost_loops(code)]
    found = [(loop.depth, name) for loop, facts in loops if (name := _loop_class(loop, facts))]
    names = {name for _, name in found}
    for name in (GEMM, DEPTHWISE):
        deepest = max((depth for depth, other in found if other in (GEMM, DEPTHWISE)), default=0)
        if (deepest, name) in found:
            return name
    if _is_normalisation(code, loops):
        return NORM
    for name in (POOL, ELEMENTWISE, PACK):
        if name in names:
            return name
    kinds = {kind_of(i.mnemonic) for i in code.instructions}
    # A function that calls others and sets a few words to zero does not spend its time there.
    return COPY if "string" in kinds or (COPY in names and "call" not in kinds) else ""


def _loop_class(loop: InnermostLoop, facts: LoopFacts) -> str:
    """Return the class of one innermost loop, "" for none."""
    if by_products := _product_class(loop, facts):
        return by_products
    reductions = facts.reductions()
    reduced = reductions.values()
    if not facts.vectors and any(value.changed for value in (*reduced, *(value for _, value in facts.stores))):
        return ""  # counters, indices and keys as much as data
    vectors = {name: value for name, value in reductions.items() if name.startswith("v") and not facts.calls}
    if loop.depth > 1 and any(value.compared for value in vectors.values()):
        return POOL
    # Where a running value is stored, each element depends on those before: a prefix sum, a filter with feedback.
    stored = [value for _, value in facts.stores if value.loads and not value.carried & reductions.keys()]
    if loop.depth > 1 and any(value.compared >= _WINDOW and len(value.loads) > 1 for value in stored):
        return POOL
    if loop.depth > 2 and any(not value.products for value in vectors.values()):
        return POOL  # the mean over a window
    if any(value.changed for value in stored) or (vectors and not facts.stores and not facts.scattered):
        return ELEMENTWISE
    if stored and not reductions and not facts.decisions and not facts.scattered:
        return PACK if loop.depth > 1 else COPY
    return COPY if facts.strings or (facts.stores and not facts.loads and not facts.calls) else ""


def _product_class(loop: InnermostLoop, facts: LoopFacts) -> str:
    """Return GEMM or depthwise for a loop that sums products of two different values; "" for others."""
    reduced = {name: v for name, v in facts.reductions().items() if v.products and not v.square}
    if reduced:
        # Compilers unroll by powers of two; another count of products is a row of a filter without a loop.
        rolled = all(value.products & (value.products - 1) == 0 for value in reduced.values())
        return DEPTHWISE if rolled and loop.depth >= 4 and _reduction_loops(loop, reduced) == 2 else GEMM
    for place, value in facts.stores:
        if not value.products or value.square:
            continue
        if place in value.added and (loop.depth > 1 or value.products > 1):
            return _in_memory(loop, value)
        if value.products >= _FILTER_TAPS and loop.depth > 1:
            return GEMM if facts.multiply_adds >= _REUSE * facts.loads else DEPTHWISE
    return ""


def _in_memory(loop: InnermostLoop, value: LoopValue) -> str:
    """Return the class of products that are added to an array.

    Where both factors are loaded anew for each element, none is used twice, as in a depthwise filter over channels. A
    factor that a loop around computes by a product is no filter's weight: a triangular system is solved.
    """
    if value.constant or loop.depth == 1:
        is_solved = any(_FLOAT_PRODUCT.fullmatch(i.mnemonic) for around in loop.around for i in around)
        return DEPTHWISE if loop.depth == 5 and value.products == 1 and not is_solved else GEMM
    return DEPTHWISE if loop.depth > 2 else ELEMENTWISE


def _reduction_loops(loop: InnermostLoop, reduced: dict[str, LoopValue]) -> int:
    """Count the nested loops, from the innermost, that add to the same accumulators without setting them anew."""
    levels = 1
    for around in loop.around:
        if any(_sets(i.mnemonic, i.operands, reduced) for i in around):
            break
        levels += 1
    return levels


def _sets(mnemonic: str, operands: str, reduced: dict[str, LoopValue]) -> bool:
    """True if an instruction gives an accumulator a value, or stores it."""
    parts = operands_of(operands)
    kind = kind_of(mnemonic)
    if not parts or kind in ("nothing", "call"):
        return False
    read = [register_of(part) for part in (parts if kind in ("store", "move") else parts[:1])]
    return any(name in reduced for name in read) and kind not in ("add", "fused", "into", "added")


def _is_normalisation(code: FunctionCode, loops: Sequence[tuple[InnermostLoop, LoopFacts]]) -> bool:
    """True if loops sum up, or find the largest, and others store values, with a division, root or call."""
    sums = any(facts.reductions() for _, facts in loops)
    scales = any(
        value.changed and value.loads and not facts.reductions() for _, facts in loops for _, value in facts.stores
    )
    divides = any(kind_of(i.mnemonic) == "divide" for i in code.instructions) or any(f.calls for _, f in loops)
    return sums and scales and divides

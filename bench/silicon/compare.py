"""One row per published figure: the time on silicon, the model's, and the reason if there is no modelled one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from bench.silicon.calls import Call
from bench.silicon.dynamic_path import NotModelled
from bench.silicon.figures import Figure, SourceList
from bench.silicon.models import Model
from bench.silicon.runs import Runs
from mavcg.errors import MavcgError
from mavcg.hardware.timing import Timing
from mavcg.passes.asm.analysis.dependences import with_effects
from mavcg.passes.asm.isa.op import Op
from mavcg.passes.asm.isa.source import parse_source
from mavcg.passes.asm.models.estimate import loop_cycles
from mavcg.profiles.load import load_core
from mavcg.profiles.timing import load_timing


@dataclass(frozen=True)
class Row:
    """A figure beside the model's. modelled: cycles, or a ratio; None with the reason in `why`."""

    figure: Figure
    modelled: float | None
    why: str = ""

    @property
    def error(self) -> float | None:
        """Relative error of the model, 0.1 for 10 % too slow; None without a model's figure."""
        return None if self.modelled is None else self.modelled / self.figure.value - 1


def rows_of(source: SourceList, clone: Path | None, model: Model, cores: tuple[str, ...] = ()) -> Iterator[Row]:
    """Yield a row for every figure of a list (of these cores, if any are named).

    Without a clone, figures that need sources are left out.
    """
    runs = Runs(source, clone) if clone is not None else None
    cycles: dict[tuple[str, Call], float | NotModelled] = {}
    for figure in source.figures:
        if cores and figure.core not in cores:
            continue
        if figure.reason:
            yield Row(figure, None, figure.reason)
        elif figure.kind == "instruction":
            yield _row(figure, partial(instruction_cycles, figure))
        elif runs is not None:
            yield _row(figure, partial(_called, figure, runs, model, cycles))


def _row(figure: Figure, modelled: Callable[[], float]) -> Row:
    try:
        return Row(figure, modelled())
    except NotModelled as reason:
        return Row(figure, None, str(reason))


def _called(figure: Figure, runs: Runs, model: Model, cycles: dict[tuple[str, Call], float | NotModelled]) -> float:
    timing = core_timing(figure.core)
    if figure.kind == "loop":
        return runs.main_loop_cycles(figure.calls[0], timing)

    def cycles_of_call(call: Call) -> float:
        if (figure.core, call) not in cycles:
            try:
                cycles[figure.core, call] = model(runs.run(call), timing)
            except NotModelled as reason:
                cycles[figure.core, call] = reason
        known = cycles[figure.core, call]
        if isinstance(known, NotModelled):
            raise known
        return known

    own = sum(map(cycles_of_call, figure.calls)) / len(figure.calls)
    if figure.less:
        own -= sum(map(cycles_of_call, figure.less)) / len(figure.less)
    return own / (sum(map(cycles_of_call, figure.before)) / len(figure.before)) if figure.kind == "ratio" else own


def instruction_cycles(figure: Figure) -> float:
    """Return the modelled cycles per instruction of a loop whose copies are independent, or depend on each other.

    Raises: NotModelled for unknown instructions.
    """
    if "{" in figure.code.replace("{{", ""):
        # Sources are v16 and above, and x20: destinations stay below, where there are sources.
        most = 15 if "v16" in figure.code else 28
        step = 4 if "{e}" in figure.code else 1
        at = range(0, most, step)
        lines = [figure.code.format(d=n, e=n + 1, f=n + 2, g=n + 3, x=2 + n % 16, y=2 + (n + 1) % 16) for n in at]
    else:
        lines = [figure.code.format()]
    ops = _ops("\n".join(f"\t{line}" for line in lines) + "\n")
    try:
        return loop_cycles(ops, core_timing(figure.core)) / len(ops)
    except MavcgError as error:
        raise NotModelled(str(error)) from None


def _ops(text: str) -> tuple[Op, ...]:
    instrs = [statement.instr for statement in parse_source(text)]
    known = [instr for instr in instrs if instr is not None]
    if not known or len(known) != len(instrs):
        raise NotModelled(f"`{text.strip().splitlines()[0]}` is not known to the models")
    try:
        return tuple(code.op for code in with_effects(known))
    except AssertionError:
        raise NotModelled(f"`{text.strip().splitlines()[0]}` is not known to the models") from None


@lru_cache(maxsize=64)
def core_timing(name: str) -> Timing:
    """Return a core's timing. Raises: NotModelled for a core without one."""
    try:
        return load_timing(load_core(name))
    except MavcgError as error:
        raise NotModelled(str(error)) from None


def before_and_after(rows: list[Row]) -> Iterator[tuple[Figure, float, float]]:
    """Yield (figure, silicon's ratio, the model's ratio) of every change: after over before."""
    pairs: dict[tuple[str, str, str, str], dict[str, Row]] = {}
    for row in rows:
        if row.modelled is None:
            continue
        figure = row.figure
        if figure.kind == "ratio":
            yield figure, figure.value, row.modelled
        elif figure.kind == "cycles":
            key = figure.source, figure.change or figure.published, figure.name, figure.core
            pairs.setdefault(key, {})[figure.when] = row
    for pair in pairs.values():
        if "before" in pair and "after" in pair:
            before, after = pair["before"], pair["after"]
            assert before.modelled and after.modelled
            yield after.figure, after.figure.value / before.figure.value, after.modelled / before.modelled

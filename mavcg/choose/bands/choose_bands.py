"""Chooses the steps of a program that are computed depth first, by bands of rows that stay in a cache, for speed.

Both orders use the same kernels, so only some times differ. Bands save reads from a farther memory level; they lose by
calls of fewer rows, handovers to other threads, and rows instead of runs of pixels. Both are predicted by a model. A
range of steps is computed by bands if the savings, divided by a cost safety factor, exceed the losses, times such a
factor, by a share of the whole time. This must hold on every cluster of the board, on one core and on all cores: a
library runs with one thread or with several, and its order of work is the same on all cores.

Bands change kernels to rows of the image, so they are chosen before tiles; for the prediction, those of the kernels in
question are planned here.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mavcg.choose.bands.band_model import band_models, banded_steps, compare_times, of_team
from mavcg.choose.bands.banded_range import ClusterTimes, DepthFirst
from mavcg.choose.lowering.image_rows import with_image_rows
from mavcg.choose.lowering.lower import LoweredGraph
from mavcg.choose.lowering.row_phases import ProgramRows, division_of, program_rows
from mavcg.choose.lowering.step_list import make_step_list, plan_lowered
from mavcg.choose.plan import Plan
from mavcg.choose.predict.kernel_cycles import KernelModel, kernel_models
from mavcg.choose.predict.latency import StepModel
from mavcg.choose.predict.memory import Distances, reuse_distances
from mavcg.choose.predict.program_work import step_works
from mavcg.choose.predict.work import StepWork
from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.files.worker_processes import Task, started_tasks
from mavcg.hardware.core_model import BoardModel, CoreModel
from mavcg.kernels.builder.emit import kernel_name
from mavcg.memory.row_segments import StepRange, cheapest_cuts
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.tile_plan import TilePlan

NEARLY = 0.9  # of the most that any size of bands saves: the smallest bands that save as much are taken
MOST_STEPS = 16  # of a range
MOST_CUTS = 6  # between the two cuts of a range, those left out
SLACK = 1.0  # fraction by which windows are enlarged, so that fewer bytes are moved


def with_bands(
    plan: Plan,
    board: BoardModel,
    careful: bool = True,
    progress: Callable[[str], None] = lambda message: None,
    workers: int = 1,
) -> Plan:
    """Return a lowered plan with the ranges of steps by bands that pay, and the order with them; unchanged without any.

    careful: False takes every range that is predicted to be faster.
    """
    cores = board.by_speed
    by_rows = program_rows(with_image_rows(plan.lowered))
    candidates = candidate_ranges(by_rows, min(map(cache_bytes, cores)))
    if not candidates:
        return plan
    whole = plan_lowered(plan.lowered)
    chosen = _Choice(whole, board, cores, careful, candidates).choose(workers, progress)
    if not chosen:
        return plan
    inside = {number for range_ in chosen for number in range(range_.steps.begin, range_.steps.end)}
    lowered = with_image_rows(plan.lowered, inside)
    banded = replace(whole, lowered=lowered, program=make_step_list(lowered, whole.memory))
    ranges = _all_ranges([range_.steps for range_ in chosen], len(lowered.steps))
    rows = division_of(banded, program_rows(lowered), ranges, SLACK)
    return replace(plan, lowered=lowered, rows=rows, bands=tuple(chosen))


def _all_ranges(bands: Sequence[StepRange], count: int) -> list[StepRange]:
    """Return these ranges of steps and those between them, of all `count` steps."""
    ranges = list[StepRange]()
    at = 0
    for steps in (*bands, StepRange(count, count)):
        ranges += [StepRange(at, steps.begin)] if steps.begin > at else []
        ranges += [steps] if steps.end > steps.begin else []
        at = steps.end
    return ranges


@dataclass(frozen=True)
class _Programs:
    """A program by rows of the image, in which ranges may pay, and layer by layer (whole_*).

    Each with the steps' works and reuse distances. tiles: of the kernels of both.
    """

    by_rows: Plan
    tiles: TilePlan
    rows: ProgramRows
    works: Sequence[StepWork]
    distances: Sequence[Distances]
    whole_works: Sequence[StepWork]
    whole_distances: Sequence[Distances]


@dataclass(frozen=True)
class _Choice:
    """Inputs of the choice.

    planned: the program layer by layer, whose kernels have no tiles yet. cores: of each cluster, the fastest first.
    candidates: ranges that may pay.
    """

    planned: Plan
    board: BoardModel
    cores: Sequence[CoreModel]
    careful: bool
    candidates: tuple[tuple[int, int], ...]

    def choose(self, workers: int, progress: Callable[[str], None]) -> list[DepthFirst]:
        """Return the ranges that pay on every cluster and together save the most time on the fastest one."""
        numbers = {number for begin, end in self.candidates for number in range(begin, end)}
        lowered, whole = with_image_rows(self.planned.lowered, numbers), self.planned.lowered
        # Those of all other kernels do not matter here.
        specs = dict.fromkeys(each.steps[number].spec for number in sorted(numbers) for each in (whole, lowered))
        tiles = plan_tiles(list(specs), self.board.versions, self.board.counts)
        by_rows, layer_by_layer = self._program(lowered, tiles), self._program(whole, tiles)
        works, whole_works = step_works(by_rows), step_works(layer_by_layer)
        programs = _Programs(
            by_rows,
            tiles,
            program_rows(lowered, by_rows.program),
            works,
            reuse_distances(works),
            whole_works,
            reuse_distances(whole_works),
        )
        # Neighbours have kernels in common: each worker takes a run of ranges.
        size = max(1, -(-len(self.candidates) // max(1, workers)))
        runs = [self.candidates[at : at + size] for at in range(0, len(self.candidates), size)]
        tasks = [Task("predicting bands of rows", partial(self._worth, programs, run)) for run in runs]
        worth: dict[int, list[DepthFirst]] = {}
        with started_tasks(tasks[1:], workers - 1) as others:  # a copy of this process less: it takes the first run
            progress(tasks[0].what)
            for option in itertools.chain(tasks[0].run(), *others()):
                worth.setdefault(option.steps.end, []).append(option)
        return _most_saved(worth, len(programs.rows.steps))

    def _program(self, lowered: LoweredGraph, tiles: TilePlan) -> Plan:
        """Return the program of a form of the graph with these tiles."""
        program = make_step_list(lowered, self.planned.memory, tiles)
        return replace(self.planned, lowered=lowered, tiles=tiles, program=program)

    def _worth(self, programs: _Programs, candidates: Sequence[tuple[int, int]]) -> list[DepthFirst]:
        """Return for each range that pays the smallest bands that save nearly the most."""
        numbers = sorted({number for begin, end in candidates for number in range(begin, end)})
        kernels = self._kernels([self.planned.lowered.steps[n].spec for n in numbers], programs.tiles)
        kernels |= self._kernels([programs.by_rows.lowered.steps[n].spec for n in numbers], programs.tiles, kernels)
        whole = {number: self._whole_times(number, programs, kernels) for number in numbers}
        paying = []
        for begin, end in candidates:
            options = []
            for band in band_sizes(programs.rows.steps[end - 1].units):
                steps = StepRange(begin, end, 0, band)
                times = self._times(steps, programs, whole, kernels)
                if times is not None and self._pays(times):
                    names = tuple(self.planned.lowered.steps[number].name for number in (begin, end - 1))
                    options.append(DepthFirst(steps, times, (names[0], names[1])))
            most = max((option.saved_ms for option in options), default=0.0)
            paying += [option for option in options if option.saved_ms >= NEARLY * most][:1]
        return paying

    def _pays(self, times: Sequence[ClusterTimes]) -> bool:
        if not self.careful:
            return all(times.bands_ms < times.whole_ms for time in times for times in (time.alone, time.together))
        factors = [core.fit.safety for core in self.cores]
        return all(
            times.pays(factor.modelled, factor.bands)
            for time, factor in zip(times, factors, strict=True)
            for times in (time.alone, time.together)
        )

    def _kernels(
        self, specs: Sequence[KernelSpec], tiles: TilePlan, known: Mapping[str, Mapping[int, KernelModel]] | None = None
    ) -> dict[str, dict[int, KernelModel]]:
        """Return the models of kernels by name and cluster."""
        new = [spec for spec in dict.fromkeys(specs) if kernel_name(spec) not in (known or {})]
        by_kernel: dict[str, dict[int, KernelModel]] = {kernel_name(spec): {} for spec in new}
        for core in self.cores:
            for name, model in kernel_models(new, core, self.board.target, plan=tiles).items():
                by_kernel[name][core.number] = model
        return by_kernel

    @property
    def _teams(self) -> list[tuple[list[CoreModel], list[CoreModel]]]:
        """Return one core of each cluster, and all of its cores."""
        return [([core], self.board.team_of(core)) for core in self.cores]

    def _whole_times(
        self, number: int, programs: _Programs, kernels: Mapping[str, Mapping[int, KernelModel]]
    ) -> list[tuple[float, ...]]:
        """Return the times of a step layer by layer in ms, on the teams of each cluster."""
        work = programs.whole_works[number]
        step = StepModel(work, programs.whole_distances[number], kernels[work.kernel])
        return [tuple(of_team(step, len(workers)).together(workers) for workers in teams) for teams in self._teams]

    def _times(
        self,
        steps: StepRange,
        programs: _Programs,
        whole: Mapping[int, Sequence[tuple[float, ...]]],
        kernels: Mapping[str, Mapping[int, KernelModel]],
    ) -> tuple[ClusterTimes, ...] | None:
        """Return the times of a range by bands and layer by layer; None if it cannot be computed by bands.

        whole: of each step, in ms, as from _whole_times.
        """
        works = programs.works
        banded = banded_steps(programs.rows, works, steps)
        if banded is None:
            return None
        own = slice(steps.begin, steps.end)
        models = band_models(banded, works[own], programs.distances[own], [kernels[w.kernel] for w in works[own]])
        times = []
        for cluster, (machine, teams) in enumerate(zip(self.cores, self._teams, strict=True)):
            before = [whole[number][cluster] for number in range(steps.begin, steps.end)]
            alone, together = (
                compare_times([times[team] for times in before], models, machine, workers)
                for team, workers in enumerate(teams)
            )
            times.append(ClusterTimes(machine.cluster.core, alone, together))
        return tuple(times)


def _most_saved(worth: Mapping[int, Sequence[DepthFirst]], count: int) -> list[DepthFirst]:
    """Return the non-overlapping ranges that save the most; by dynamic programming over their ends."""
    best: list[tuple[float, list[DepthFirst]]] = [(0.0, [])]
    for end in range(1, count + 1):
        options = [best[end - 1]]
        for option in worth.get(end, ()):
            saved, before = best[option.steps.begin]
            options.append((saved + option.saved_ms, [*before, option]))
        best.append(max(options, key=lambda option: option[0]))
    return best[count][1]


def cache_bytes(core: CoreModel) -> int:
    """Return the size of the second-level cache, or of the only cache."""
    levels = core.levels
    return levels[min(1, len(levels) - 1)].shared_bytes


def band_sizes(units: int) -> list[int]:
    """Return the numbers of rows of a band to try, for a last step of so many rows: two bands at least."""
    return [band for band in (1, 2, 4, 8, 16, 32) if 2 * band <= units]


def candidate_ranges(rows: ProgramRows, cache_bytes: int) -> tuple[tuple[int, int], ...]:
    """Return ranges between cuts, computed by rows only, with an inner tensor that is too large for the cache."""
    cuts = cheapest_cuts(rows.steps, rows.sizes)
    ranges = []
    for number, begin in enumerate(cuts):
        for end in cuts[number + 1 : number + 1 + MOST_CUTS]:
            steps = rows.steps[begin:end]
            if not 2 <= end - begin <= MOST_STEPS or any(step.units < 2 for step in steps):
                continue
            outside = {a.buffer for step in (*rows.steps[:begin], *rows.steps[end:]) for a in step.accesses}
            inside = {a.buffer for step in steps for a in step.accesses if a.buffer in rows.sizes} - outside
            if any(rows.sizes[buffer] > cache_bytes // 2 for buffer in inside):
                ranges.append((begin, end))
    return tuple(ranges)

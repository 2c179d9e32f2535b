"""The work list of a tuning: measurements that a network's selection of primitives and conversions needs, in order."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from mavcg.choose.algorithms.costs.provider import Cost, CostProvider
from mavcg.choose.algorithms.costs.rows import Conversion
from mavcg.choose.algorithms.dt_graph import Size, dt_graph, same_in_memory
from mavcg.choose.algorithms.library import USUAL_NAMES
from mavcg.choose.algorithms.network import Kind, Link, Network
from mavcg.errors import MavcgError
from mavcg.lab.trials.check import verify_scenario
from mavcg.specs.primitive import Layout, Primitive, Scenario

# A primitive is not measured if its predicted time is beyond WORSE times the best one's, or beyond WORSE_THAN_CONVERTED
# times that of another primitive with the conversions from and to its layouts, which would then be chosen converted_ms.
WORSE, WORSE_THAN_CONVERTED = 4.0, 2.0


@dataclass(frozen=True)
class Job:
    """One cost to be measured: of a primitive for a scenario, or of a conversion (primitive is None).

    predicted_ms: by the model.
    """

    what: tuple[Scenario, str] | Conversion
    predicted_ms: float
    primitive: Primitive | None = None

    @property
    def name(self) -> str:
        """Name of the job for messages."""
        if isinstance(self.what, Conversion):
            return f"{self.what.layout_from} to {self.what.layout_to}, {self.what.c}x{self.what.h}x{self.what.w}"
        return f"{self.what[1]}, {self.what[0].text}"


@dataclass(frozen=True)
class WorkList:
    """The measurements of a network.

    jobs: for each scenario the default primitive, then the most promising ones. pruned: number of measurements that the
    model makes unnecessary. left_out: scenarios that are too large to measure, as messages.
    """

    scenarios: tuple[Scenario, ...]
    sizes: tuple[Size, ...]
    jobs: tuple[Job, ...]
    pruned: int
    left_out: tuple[str, ...] = ()


def plan_of(network: Network, primitives: Sequence[Primitive], model: CostProvider) -> WorkList:
    """Return the measurements of a network.

    Each scenario by each promising primitive, and all conversions of its images.
    Raises: MavcgError if the network has no convolution that primitives compute.
    """
    scenarios = dict.fromkeys(node.scenario for node in network.convolutions if node.scenario is not None)
    if not scenarios:
        raise MavcgError(f"{network.name}: has no convolution that primitives compute; there is nothing to tune")
    queues, pruned, left_out, measurable = [], 0, [], []
    for scenario in scenarios:
        try:
            verify_scenario(scenario)
        except MavcgError as error:
            left_out.append(str(error))
            continue
        measurable.append(scenario)
        queue, dropped = _order_by_promise(scenario, primitives, model)
        queues.append(queue)
        pruned += dropped
    # Nothing is converted between two nodes of fixed layout.
    free = (link for link in network.links if any(network.nodes[n].kind is not Kind.FIXED for n in _ends(link)))
    sizes = tuple(dict.fromkeys(replace(link.size, n=1) for link in free))
    queues += [_conversions(size, model) for size in sizes]
    # Round robin over the queues, so that an interrupted tuning has the most promising jobs of each.
    interleaved = (job for jobs_of_rank in zip_longest(*queues) for job in jobs_of_rank if job is not None)
    jobs = tuple(
        {job.what: job for job in interleaved}.values()
    )  # of scenarios that differ in sparsity, dense ones once
    return WorkList(tuple(measurable), sizes, jobs, pruned, tuple(left_out))


def unsure_jobs(plan: WorkList, safety: float) -> tuple[Job, ...]:
    """Return the jobs of primitives among which the model cannot tell the fastest one of a scenario.

    safety: cost safety factor of modelled figures. Two of them may be as far apart as its square and still be in the
    wrong order. Of a scenario with several primitives so near to the fastest, these and the engine's default are
    returned; of others nothing, and no conversion.
    """
    groups: dict[Scenario, list[Job]] = {}
    for job in plan.jobs:
        if not isinstance(job.what, Conversion):
            groups.setdefault(replace(job.what[0], sparsity=0, block_sparsity=0), []).append(job)
    unsure: set[Job] = set()
    for jobs in groups.values():
        limit = safety**2 * min(job.predicted_ms for job in jobs)
        near = [job for job in jobs if job.predicted_ms <= limit or job.predicted_ms == math.inf]
        if len(near) > 1:
            unsure |= {*near, *(job for job in jobs if _name(job) in USUAL_NAMES)}
    return tuple(job for job in plan.jobs if job in unsure)


def _ends(link: Link) -> tuple[str, str]:
    return link.source, link.target


def _order_by_promise(
    scenario: Scenario, primitives: Sequence[Primitive], model: CostProvider
) -> tuple[list[Job], int]:
    """Return the default primitive, then the others by predicted time, and the number of pruned ones.

    Primitives that the model does not know are measured last.
    """
    jobs = []
    for primitive in primitives:
        if primitive.applies(scenario):
            cost = model.primitive(scenario, primitive)
            jobs.append(
                Job(
                    (primitive.cost_scenario(scenario), primitive.name),
                    math.inf if cost is None else cost.ms,
                    primitive,
                )
            )
    predicted = [job for job in jobs if job.predicted_ms < math.inf]
    ends = (
        dt_graph(model, Size(scenario.c, scenario.h, scenario.w, scenario.batch)),
        dt_graph(model, Size(scenario.m, scenario.out_h, scenario.out_w, scenario.batch)),
    )
    best = min((job.predicted_ms for job in predicted), default=0.0)
    fastest_of: dict[tuple[Layout, Layout], float] = {}
    for job in predicted:
        pair = _layouts(job)
        fastest_of[pair] = min(job.predicted_ms, fastest_of.get(pair, math.inf))

    def converted_ms(pair: tuple[Layout, Layout]) -> float:
        """Return the time of the fastest primitive of any layouts with the conversions from and to these, in ms."""
        chain_ms = (ends[0].ms(pair[0], a) + ms + ends[1].ms(b, pair[1]) for (a, b), ms in fastest_of.items())
        return min(chain_ms, default=math.inf)

    limit = {pair: min(WORSE * best, WORSE_THAN_CONVERTED * converted_ms(pair)) for pair in fastest_of}

    def promising(job: Job) -> bool:
        return _name(job) in USUAL_NAMES or job.predicted_ms == math.inf or job.predicted_ms <= limit[_layouts(job)]

    promising_jobs = [job for job in jobs if promising(job)]
    order = sorted(promising_jobs, key=lambda job: (_name(job) not in USUAL_NAMES, job.predicted_ms))
    return order, len(jobs) - len(promising_jobs)


def _name(job: Job) -> str:
    assert job.primitive is not None
    return job.primitive.name


def _layouts(job: Job) -> tuple[Layout, Layout]:
    assert job.primitive is not None
    return job.primitive.layout_in, job.primitive.layout_out


def _conversions(size: Size, model: CostProvider) -> list[Job]:
    pairs = [(a, b) for a in Layout for b in Layout if not same_in_memory(a, b, size)]
    jobs = []
    for a, b in pairs:
        cost = model.conversion(a, b, size.c, size.h, size.w)
        jobs.append(Job(Conversion(a, b, size.c, size.h, size.w), math.inf if cost is None else cost.ms))
    return jobs


def fastest(
    plan: WorkList, costs: CostProvider, primitives: Sequence[Primitive]
) -> Iterator[tuple[Scenario, str, Cost]]:
    """Yield for each scenario the primitive of least cost by itself, among those with a known cost.

    Compared is the upper end of each cost: a primitive that was measured interleaved with the default must be faster
    with confidence.
    """
    for scenario in plan.scenarios:
        known = [(costs.primitive(scenario, p), p.name) for p in primitives if p.applies(scenario)]
        ranked = [(cost.cautious_ms, name, cost) for cost, name in known if cost is not None]
        if ranked:
            _, name, cost = min(ranked, key=lambda entry: entry[:2])
            yield scenario, name, cost

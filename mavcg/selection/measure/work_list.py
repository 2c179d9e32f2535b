"""List the measurements that a network's selection of primitives and conversions needs, in their order."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from mavcg.errors import MavcgError
from mavcg.kernels.primitives.eight_bit import DEFAULTS
from mavcg.selection.costs.provider import Cost, CostProvider
from mavcg.selection.costs.rows import Conversion
from mavcg.selection.dt_graph import Size, dt_graph, same_in_memory
from mavcg.selection.network import Kind, Link, Network
from mavcg.specs.primitive import Layout, Primitive, Scenario
from mavcg.trials.check import verify_scenario

# A primitive that is predicted to take so many times as long as the best one is not measured; nor one that takes so
# many times as long as another with the conversions from and to its layouts: that would be taken in its place.
WORSE, WORSE_THAN_CONVERTED = 4.0, 2.0
# What the engine computes a convolution by when nothing is selected, by whether it is depthwise: always measured.
USUAL = {False: "implicit_gemm_hwc_hwc", True: "implicit_depthwise_hwc_hwc"}
USUAL_NAMES = frozenset((*USUAL.values(), *DEFAULTS))  # and of 8 bits


@dataclass(frozen=True)
class Job:
    """One figure to be measured. predicted_ms: by the model. primitive: of a scenario, else it is a conversion."""

    what: tuple[Scenario, str] | Conversion
    predicted_ms: float
    primitive: Primitive | None = None

    @property
    def name(self) -> str:
        """The job's name for people."""
        if isinstance(self.what, Conversion):
            return f"{self.what.layout_from} to {self.what.layout_to}, {self.what.c}x{self.what.h}x{self.what.w}"
        return f"{self.what[1]}, {self.what[0].text}"


@dataclass(frozen=True)
class Plan:
    """The measurements of a network. jobs: of each scenario the default one, then the most promising; pruned: how many
    more there would be without the model.

    left_out: scenarios that are too large, in words.
    """

    scenarios: tuple[Scenario, ...]
    sizes: tuple[Size, ...]
    jobs: tuple[Job, ...]
    pruned: int
    left_out: tuple[str, ...] = ()


def plan_of(network: Network, primitives: Sequence[Primitive], model: CostProvider) -> Plan:
    """Return every scenario of a network once, by each primitive that may be the best; every conversion of its images.

    Raises: MavcgError where the network has no convolution that primitives compute.
    """
    found = dict.fromkeys(node.scenario for node in network.convolutions if node.scenario is not None)
    if not found:
        raise MavcgError(f"{network.name}: has no convolution that primitives compute; there is nothing to tune")
    queues, pruned, left_out, kept = [], 0, [], []
    for scenario in found:
        try:
            verify_scenario(scenario)
        except MavcgError as error:
            left_out.append(str(error))
            continue
        kept.append(scenario)
        queue, dropped = _order_by_promise(scenario, primitives, model)
        queues.append(queue)
        pruned += dropped
    # Between two ends that cannot choose nothing is converted.
    free = (link for link in network.links if any(network.nodes[n].kind is not Kind.FIXED for n in _ends(link)))
    sizes = tuple(dict.fromkeys(replace(link.size, n=1) for link in free))
    queues += [_conversions(size, model) for size in sizes]
    # Interleaved, so that a tuning that is cut short knows the most promising ones of everything.
    interleaved = (job for jobs_of_rank in zip_longest(*queues) for job in jobs_of_rank if job is not None)
    jobs = tuple(
        {job.what: job for job in interleaved}.values()
    )  # of scenarios that differ in sparsity, dense ones once
    return Plan(tuple(kept), sizes, jobs, pruned, tuple(left_out))


def unsure_jobs(plan: Plan, safety: float) -> tuple[Job, ...]:
    """Return the jobs of primitives among which the model cannot tell the fastest one of a scenario.

    safety: cost safety factor of modelled figures. Two of them may be as far apart as its square and still be in the
    wrong order. Of a scenario with several primitives so near to the fastest, these and the engine's default are
    returned; of others nothing, and no conversion.
    """
    groups: dict[Scenario, list[Job]] = {}
    for job in plan.jobs:
        if not isinstance(job.what, Conversion):
            groups.setdefault(replace(job.what[0], sparsity=0, block_sparsity=0), []).append(job)
    found: set[Job] = set()
    for jobs in groups.values():
        limit = safety**2 * min(job.predicted_ms for job in jobs)
        near = [job for job in jobs if job.predicted_ms <= limit or job.predicted_ms == math.inf]
        if len(near) > 1:
            found |= {*near, *(job for job in jobs if _name(job) in USUAL_NAMES)}
    return tuple(job for job in plan.jobs if job in found)


def _ends(link: Link) -> tuple[str, str]:
    return link.source, link.target


def _order_by_promise(
    scenario: Scenario, primitives: Sequence[Primitive], model: CostProvider
) -> tuple[list[Job], int]:
    """Return the usual one, then best first, and how many more apply. What the model does not know is measured last."""
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
    known = [job for job in jobs if job.predicted_ms < math.inf]
    ends = (
        dt_graph(model, Size(scenario.c, scenario.h, scenario.w, scenario.batch)),
        dt_graph(model, Size(scenario.m, scenario.out_h, scenario.out_w, scenario.batch)),
    )
    best = min((job.predicted_ms for job in known), default=0.0)
    fastest_of: dict[tuple[Layout, Layout], float] = {}
    for job in known:
        pair = _layouts(job)
        fastest_of[pair] = min(job.predicted_ms, fastest_of.get(pair, math.inf))

    def instead(pair: tuple[Layout, Layout]) -> float:
        """Return the ms of the fastest that there is for these layouts, conversions counted."""
        chain_ms = (ends[0].ms(pair[0], a) + ms + ends[1].ms(b, pair[1]) for (a, b), ms in fastest_of.items())
        return min(chain_ms, default=math.inf)

    limit = {pair: min(WORSE * best, WORSE_THAN_CONVERTED * instead(pair)) for pair in fastest_of}

    def promising(job: Job) -> bool:
        return _name(job) in USUAL_NAMES or job.predicted_ms == math.inf or job.predicted_ms <= limit[_layouts(job)]

    kept = [job for job in jobs if promising(job)]
    order = sorted(kept, key=lambda job: (_name(job) not in USUAL_NAMES, job.predicted_ms))
    return order, len(jobs) - len(kept)


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


def fastest(plan: Plan, costs: CostProvider, primitives: Sequence[Primitive]) -> Iterator[tuple[Scenario, str, Cost]]:
    """Return for each scenario the primitive of least cost by itself, of those whose cost is known.

    Each counts for the upper end of what it may cost: one that was measured interleaved with the default has to be
    faster than that beyond doubt.
    """
    for scenario in plan.scenarios:
        known = [(costs.primitive(scenario, p), p.name) for p in primitives if p.applies(scenario)]
        found = [(cost.cautious_ms, name, cost) for cost, name in known if cost is not None]
        if found:
            _, name, cost = min(found, key=lambda each: each[:2])
            yield scenario, name, cost

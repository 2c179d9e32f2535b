"""Selections by three kinds of costs, at the costs of one of them."""

import numpy as np

from bench.simulated_selections import near_jobs, row_of
from mavcg.choose.algorithms.choice import make_problem
from mavcg.choose.algorithms.costs.provider import MODELLED, SIMULATED, Cost
from mavcg.choose.algorithms.costs.rows import Conversion
from mavcg.choose.algorithms.network import Network, network_of
from mavcg.choose.algorithms.strategies import PBQP, select
from mavcg.graph import TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.kernels.primitives.registry import all_primitives, find_primitive
from mavcg.lab.tuning.work_list import Job, WorkList
from mavcg.passes.graph.pipeline import optimise
from mavcg.specs.primitive import Layout, Primitive, Scenario

SCENARIO = Scenario(32, 14, 14, 1, 3, 48, 1)
NAMES = ("winograd_2d_f4_k3_staged_hwc_hwc", "im2row_hwc_hwc", "implicit_gemm_hwc_hwc")


def test_near_jobs_are_conversions_defaults_and_what_may_be_fast() -> None:
    times = (1.0, 2.5, 9.0)
    jobs = [Job((SCENARIO, name), ms, find_primitive(name)) for name, ms in zip(NAMES, times, strict=True)]
    conversion = Job(Conversion(Layout.CHW, Layout.HWC, 32, 14, 14), 0.1)

    assert near_jobs(WorkList((SCENARIO,), (), (*jobs, conversion), 0), 2.0) == [jobs[0], jobs[2], conversion]
    assert near_jobs(WorkList((SCENARIO,), (), (*jobs, conversion), 0), 2.5) == [*jobs, conversion]


class _Costs:
    """Costs by the beginning of a primitive's name; conversions cost 0.1 ms."""

    def __init__(self, kind: str, **ms: float) -> None:
        self.kind, self.ms = kind, ms

    def primitive(self, scenario: Scenario, primitive: Primitive) -> Cost | None:
        found = next((ms for name, ms in self.ms.items() if primitive.name.startswith(name)), None)
        return None if found is None else Cost(found, self.kind)

    def conversion(self, layout_from: Layout, layout_to: Layout, c: int, h: int, w: int) -> Cost | None:
        return Cost(0.1 if layout_from is not layout_to else 0.0, self.kind)


def one_convolution() -> Network:
    b = GraphBuilder("one")
    x = b.input("x", TensorType("f32", (1, 14, 14, 32)))
    y = b.add("conv2d", [x, b.constant(np.ones((48, 1, 1, 32), np.float32))])
    return network_of(optimise(b.finish([y])))


def test_a_selection_is_priced_by_the_costs_of_the_best_one() -> None:
    network = one_convolution()
    primitives = all_primitives()
    wrong = make_problem(network, _Costs(MODELLED, direct=1.0, implicit=2.0), primitives)
    right = make_problem(network, _Costs(SIMULATED, direct=4.0, implicit=2.0), primitives)
    chosen, best = (select(problem, PBQP, 10.0).choice for problem in (wrong, right))
    row = row_of("model alone", chosen, best, right, network, 1.0)

    assert row["different"] == len(network.convolutions) == 1 and row["modelled"] == 0
    assert row["over_best"] > 1.5 and row["ms"] > row["expected_ms"]
    assert row_of("all", best, best, right, network, 1.0)["over_best"] == 1.0

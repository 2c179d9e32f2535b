"""The exact front of chains and of series of blocks, beside brute force over all sets of layers by parts."""

import random
from dataclasses import replace
from itertools import combinations

import pytest

from mavcg.apps.application import Application, Cnn, DataEdge, Layer, RowWindow, sequential
from mavcg.apps.derivation import Derivation, free_genes
from mavcg.apps.exact_front import FrontPoint, derived_peak, exact_front, front_gap
from mavcg.apps.plan import plan_application, plan_json
from mavcg.apps.search import Constraints, GeneticLimits
from mavcg.apps.throughput import LayerTime
from mavcg.apps.worked_example import example_application

Planned = tuple[Application, dict[tuple[str, str], LayerTime]]


class RandomSeries:
    """Layers of random windows, in a chain or with blocks of parallel branches; most keep the number of rows."""

    def __init__(self, generator: random.Random) -> None:
        self.generator, self.layers, self.edges = generator, [Layer("l0", "conv", 12)], list[DataEdge]()

    def add(self, sources: list[int], kinds: tuple[str, ...], keep_rows: bool) -> int:
        """Add a layer that reads these; returns its number."""
        generator, number = self.generator, len(self.layers)
        rows = self.layers[sources[0]].out_rows
        for source in sources:
            elements = self.layers[source].out_rows * generator.randint(1, 9)
            self.edges.append(DataEdge(f"l{source}", f"l{number}", elements, self.layers[source].out_rows))
        kind, size, stride = generator.choice(kinds), generator.randint(1, 3), generator.randint(1, 2)
        if keep_rows:
            size, stride = generator.choice((1, 3)), 1
        window = RowWindow(size, stride, size // 2) if kind in ("conv", "pool") else RowWindow()
        if kind in ("conv", "pool"):
            rows = max(1, (rows + 2 * (size // 2) - size) // stride + 1)
        elif kind == "softmax" and not keep_rows:
            rows = generator.randint(1, 6)
        self.layers.append(Layer(f"l{number}", kind, rows, window))
        return number

    def plan(self) -> Planned:
        generator = self.generator
        cnn = Cnn("n", tuple(self.layers), tuple(self.edges))
        times = {
            ("n", layer.name): LayerTime((generator.uniform(1, 5),), 1, (generator.uniform(0, 0.5),))
            for layer in self.layers
        }
        return Application((cnn,), (sequential(cnn),)), times


def random_chain(seed: int) -> Planned:
    series = RandomSeries(random.Random(seed))
    for number in range(series.generator.randint(1, 5)):
        series.add([number], ("conv", "conv", "pool", "softmax"), keep_rows=False)
    return series.plan()


def random_blocks(seed: int) -> Planned:
    """One to three blocks of one to three branches, one of which may be an edge, with sums or whole layers after."""
    generator = random.Random(seed)
    series, last = RandomSeries(generator), 0
    for _ in range(generator.randint(1, 3)):
        ends = []
        for branch in range(generator.randint(1, 3)):
            end = last
            for _ in range(generator.randint(0 if branch == 0 else 1, 2)):
                end = series.add([end], ("conv", "pool", "activation", "softmax"), keep_rows=True)
            ends.append(end)
        last = series.add(ends, ("add", "add", "concat", "softmax"), keep_rows=True)
        if generator.random() < 0.3:
            last = series.add([last], ("conv", "pool"), keep_rows=False)
        if len(series.layers) > 4:
            break
    return series.plan()


def reference_front(planned: Planned) -> list[tuple[int, float]]:
    """Every set of layers by parts."""
    app, times = planned
    derivation, genes = Derivation(app), free_genes(app)
    everything = []
    for count in range(len(genes) + 1):
        for chosen in combinations(genes, count):
            derived = derivation.derive(frozenset(chosen), lambda app, data: ())
            ms = sum(time.by_phases(derived.phases[name], 0) for name, time in times.items())
            everything.append((derived_peak(derived), round(ms, 9)))
    return sorted({a for a in everything if not any(b[0] <= a[0] and b[1] <= a[1] and b != a for b in everything)})


def leaves_rows(cnn: Cnn) -> bool:
    """True if last rows of some data are written by parts and not read by parts."""
    for edge in cnn.edges:
        source, target = cnn.layer(edge.source), cnn.layer(edge.target)
        end = (target.out_rows - 1) * target.window.stride - target.window.pad + target.window.rows
        if source.by_parts and target.by_parts and end < edge.rows:
            return True
    return False


def assert_front_is_exact(planned: Planned) -> bool:
    app, times = planned
    front = exact_front(app, times)
    if front is None:
        return False
    assert [(point.peak, round(point.ms, 9)) for point in front] == reference_front(planned)
    for point in front:
        assert derived_peak(Derivation(app).derive(point.chromosome)) == point.peak
    assert front_gap(front, [(p.peak, p.ms) for p in front]) == 0
    return True


@pytest.mark.parametrize("seed", range(25))
def test_no_set_of_layers_of_a_chain_is_better(seed: int) -> None:
    planned = random_chain(seed)
    assert assert_front_is_exact(planned) != leaves_rows(planned[0].cnns[0])


@pytest.mark.parametrize("seed", range(12))
def test_no_set_of_layers_of_a_series_of_blocks_is_better(seed: int) -> None:
    planned = random_blocks(seed)
    assert assert_front_is_exact(planned) or leaves_rows(planned[0].cnns[0])


@pytest.mark.long
def test_fronts_of_five_hundred_series() -> None:
    exact = 0
    for seed in range(100, 600):
        planned = random_blocks(seed)
        own = assert_front_is_exact(planned)
        assert own or leaves_rows(planned[0].cnns[0]), seed
        exact += own
    assert exact > 400


def test_a_plan_says_how_far_the_search_is_from_the_exact_front() -> None:
    """With few layers the genetic search sees every set of them, though its fitness is another memory."""
    app, times = random_chain(4)
    plan = plan_application(app, times, Constraints(None, {}), GeneticLimits(16, 6))
    document = plan_json(plan)
    assert document["exact_front"] == [{"live_peak_bytes": p.peak, "ms": p.ms} for p in exact_front(app, times) or ()]
    assert document["front_gap"] == 0 and document["front_optimal"] is True


def test_without_a_limit_of_memory_a_plan_chooses_what_a_library_runs() -> None:
    """Layer by layer, also where a phase costs nothing; the least memory that meets a limit, where there is one."""
    app, times = random_chain(4)
    free = {layer: replace(time, phase_ms=(0.0,) * len(time.ms)) for layer, time in times.items()}
    for priced in (times, free):
        plan = plan_application(app, priced, Constraints(None, {}), GeneticLimits(16, 6))
        assert set(plan.front[plan.chosen].phases.values()) == {1} and plan.chosen == len(plan.front) - 1 > 0
        limited = plan_application(app, priced, Constraints(0, {}), GeneticLimits(16, 6))
        assert limited.chosen == 0 and limited.front[0].arena.size == plan.front[0].arena.size


def test_the_gap_of_a_search() -> None:
    exact = [FrontPoint(10, 5.0, frozenset()), FrontPoint(20, 3.0, frozenset())]
    assert front_gap(exact, [(12, 4.0), (20, 3.0)]) == pytest.approx(0.2)
    assert front_gap(exact, [(12, 4.0)]) == float("inf")


def test_other_networks_have_none() -> None:
    app, times = random_blocks(0)
    assert exact_front(example_application(), {}) is None
    assert exact_front(app, times) is not None and exact_front(app, times, most_firings=10) is None
    cnn = Cnn("n", (Layer("a"), Layer("b"), Layer("c")), (DataEdge("a", "b", 1), DataEdge("a", "c", 1)))
    assert exact_front(Application((cnn,), (sequential(cnn),)), {}) is None  # two outputs

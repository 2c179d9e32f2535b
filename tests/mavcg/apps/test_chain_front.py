"""The exact front of chains, beside brute force over all sets of layers by parts."""

import random
from itertools import combinations

import pytest

from mavcg.apps.application import Application, Cnn, DataEdge, Layer, RowWindow, sequential
from mavcg.apps.chain_front import ChainPoint, chain_front, derived_peak, front_gap, leaves_rows
from mavcg.apps.derivation import Derivation, free_genes
from mavcg.apps.plan import plan_application, plan_json
from mavcg.apps.search import Constraints, GeneticLimits
from mavcg.apps.throughput import LayerTime
from mavcg.apps.worked_example import example_application


def random_chain(seed: int) -> tuple[Application, dict[tuple[str, str], LayerTime]]:
    generator = random.Random(seed)
    layers, edges, rows = [Layer("l0", "conv", 12)], list[DataEdge](), 12
    for number in range(1, generator.randint(2, 6)):
        size, stride = generator.randint(1, 3), generator.randint(1, 2)
        kind = generator.choice(("conv", "conv", "pool", "softmax"))
        edges.append(DataEdge(f"l{number - 1}", f"l{number}", rows * generator.randint(1, 9), rows))
        rows = max(1, (rows + 2 * (size // 2) - size) // stride + 1) if kind != "softmax" else generator.randint(1, 6)
        layers.append(Layer(f"l{number}", kind, rows, RowWindow(size, stride, size // 2)))
    cnn = Cnn("n", tuple(layers), tuple(edges))
    times = {
        ("n", layer.name): LayerTime((generator.uniform(1, 5),), 1, (generator.uniform(0, 0.5),)) for layer in layers
    }
    return Application((cnn,), (sequential(cnn),)), times


@pytest.mark.parametrize("seed", range(25))
def test_no_set_of_layers_is_better(seed: int) -> None:
    app, times = random_chain(seed)
    front = chain_front(app, times)
    if any(leaves_rows(app.cnns[0], edge) for edge in app.cnns[0].edges):
        assert front is None
        return
    assert front is not None
    derivation, genes = Derivation(app), free_genes(app)
    everything = []
    for count in range(len(genes) + 1):
        for chosen in combinations(genes, count):
            derived = derivation.derive(frozenset(chosen))
            ms = sum(time.by_phases(derived.phases[name], 0) for name, time in times.items())
            everything.append((derived_peak(derived), round(ms, 9)))
    best = sorted({a for a in everything if not any(b[0] <= a[0] and b[1] <= a[1] and b != a for b in everything)})
    assert [(point.peak, round(point.ms, 9)) for point in front] == best
    for point in front:
        assert derived_peak(derivation.derive(point.chromosome)) == point.peak
    assert front_gap(front, [(p.peak, p.ms) for p in front]) == 0


def test_a_plan_says_how_far_the_search_is_from_the_exact_front() -> None:
    """With few layers the genetic search sees every set of them, though its fitness is another memory."""
    app, times = random_chain(4)
    plan = plan_application(app, times, Constraints(None, {}), GeneticLimits(16, 6))
    document = plan_json(plan)
    assert document["exact_front"] == [{"live_peak_bytes": p.peak, "ms": p.ms} for p in chain_front(app, times) or ()]
    assert document["front_gap"] == 0 and document["front_optimal"] is True


def test_the_gap_of_a_search() -> None:
    exact = [ChainPoint(10, 5.0, frozenset()), ChainPoint(20, 3.0, frozenset())]
    assert front_gap(exact, [(12, 4.0), (20, 3.0)]) == pytest.approx(0.2)
    assert front_gap(exact, [(12, 4.0)]) == float("inf")


def test_other_networks_have_none() -> None:
    assert chain_front(example_application(), {}) is None

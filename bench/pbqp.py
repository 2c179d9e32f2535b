"""Selection instances solved: of real networks, and of the same shapes with random costs: `python -m bench.pbqp`.

A real network has all primitives that apply, at their modelled costs on this machine. With drawn costs, which have no
order among them, dense blocks are as hard as they get.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.record import facts, write
from bench.selection_networks import NETWORKS as REAL
from mavcg.choose.algorithms.choice import instance_of, make_problem
from mavcg.choose.algorithms.costs.modelled import modelled_costs
from mavcg.choose.algorithms.select_workers import board_of, workers_of
from mavcg.choose.pbqp import Instance, make_instance, solve
from mavcg.kernels.primitives.registry import all_primitives

LAYOUTS = 4  # CHW, HCW, HWC and a blocked one
PRIMITIVES = 70
CONVERSION = 0.2  # what it costs to convert a tensor, in the best time of the layer that makes it
RUNS = 5
SEEDS = (0, 1, 2)


@dataclass
class Shape:
    """Builder of an instance with random costs: (in, out) layouts of each alternative, and which node reads which."""

    rng: np.random.Generator
    primitives: int = PRIMITIVES
    conversion: float = CONVERSION
    layouts: dict[str, NDArray[np.intp]] = field(default_factory=dict)
    costs: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    ms: dict[str, float] = field(default_factory=dict)
    edges: list[tuple[str, str, NDArray[np.float64]]] = field(default_factory=list)

    def conv(self, name: str, *reads: str, ms: float = 1.0) -> str:
        """Add a convolution: primitives cost 1 to 20 times the fastest one's time; a tenth of them do not apply."""
        n = self.primitives
        self.layouts[name] = self.rng.integers(0, LAYOUTS, (n, 2))
        self.costs[name] = ms * 20 ** self.rng.random(n)
        self.costs[name][1:][self.rng.random(n - 1) < 0.1] = np.inf
        return self._reading(name, reads, ms)

    def dummy(self, name: str, *reads: str, ms: float = 1.0) -> str:
        """Add a layer that takes any layout and keeps it, at no cost."""
        self.layouts[name] = np.repeat(np.arange(LAYOUTS)[:, None], 2, axis=1)
        self.costs[name] = np.zeros(LAYOUTS)
        return self._reading(name, reads, ms)

    def _reading(self, name: str, reads: Sequence[str], ms: float) -> str:
        self.ms[name] = ms
        for read in reads:
            # The tensor's size decides what its conversions cost; the way there and back differ.
            convert = self.ms[read] * self.conversion * (0.5 + self.rng.random((LAYOUTS, LAYOUTS)))
            np.fill_diagonal(convert, 0)
            self.edges.append((read, name, convert[self.layouts[read][:, 1]][:, self.layouts[name][:, 0]]))
        return name

    def instance(self) -> Instance:
        return make_instance(self.costs, self.edges)


def googlenet(rng: np.random.Generator) -> Instance:
    """Return 9 modules of four branches, 57 convolutions in all; pools and concatenations take any layout."""
    net = Shape(rng)
    x = net.conv("conv1", net.dummy("data"))
    x = net.dummy("lrn1", net.dummy("pool1", x))
    x = net.conv("conv2", net.conv("conv2_reduce", x))
    x = net.dummy("pool2", net.dummy("lrn2", x))
    for i in range(9):
        a = net.conv(f"{i}_1x1", x)
        b = net.conv(f"{i}_3x3", net.conv(f"{i}_3x3_reduce", x))
        c = net.conv(f"{i}_5x5", net.conv(f"{i}_5x5_reduce", x))
        d = net.conv(f"{i}_proj", net.dummy(f"{i}_pool", x))
        x = net.dummy(f"{i}_concat", a, b, c, d)
    net.dummy("pool", x)
    return net.instance()


def resnet50(rng: np.random.Generator) -> Instance:
    """Return 16 bottlenecks with an addition each, four of them with a projection; 53 convolutions."""
    net = Shape(rng)
    x = net.dummy("pool1", net.conv("conv1"))
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            name = f"{stage}_{i}"
            y = net.conv(f"{name}_c", net.conv(f"{name}_b", net.conv(f"{name}_a", x)))
            shortcut = net.conv(f"{name}_projection", x) if i == 0 else x
            x = net.dummy(f"{name}_add", y, shortcut)
    return net.instance()


def vgg19(rng: np.random.Generator) -> Instance:
    """Return a chain of 16 convolutions."""
    net = Shape(rng)
    x = net.conv("conv1")
    for i in range(2, 17):
        x = net.conv(f"conv{i}", x)
    return net.instance()


def densenet121_chained(rng: np.random.Generator) -> Instance:
    """Return DenseNet-121 where each layer's concatenation reads the one before it: series-parallel."""
    return _densenet121(rng, "chained")


def densenet121_joined(rng: np.random.Generator) -> Instance:
    """Return DenseNet-121 where each layer's concatenation reads the outputs of all layers before it."""
    return _densenet121(rng, "joined")


def densenet121_dense(rng: np.random.Generator) -> Instance:
    """Return DenseNet-121 where each layer reads the outputs of all before it.

    Any two layers of a block are neighbours.
    """
    return _densenet121(rng, "dense")


def _densenet121(rng: np.random.Generator, how: str) -> Instance:
    """Return blocks of 6, 12, 24 and 16 layers of a 1x1 and a 3x3 convolution, and transitions; 121 convolutions."""
    net = Shape(rng)
    x = net.dummy("pool1", net.conv("conv1"))
    for block, layers in enumerate((6, 12, 24, 16)):
        made = [x]
        for i in range(layers):
            name = f"{block}_{i}"
            made.append(net.conv(f"{name}_3x3", net.conv(f"{name}_1x1", *(made if how == "dense" else [x]))))
            if how != "dense":
                x = net.dummy(f"{name}_concat", *(made if how == "joined" else [x, made[-1]]))
        x = net.conv(f"{block}_transition", *(made if how == "dense" else [x]))
        x = net.dummy(f"{block}_pool", x)
    return net.instance()


NETWORKS: Sequence[Callable[[np.random.Generator], Instance]] = (
    vgg19,
    googlenet,
    resnet50,
    densenet121_chained,
    densenet121_joined,
    densenet121_dense,
)


def measure(name: str, seed: int | None, instance: Instance) -> dict[str, Any]:
    """Return the row of one instance, solved several times."""
    solutions, cpu = [], []
    for _ in range(RUNS):
        begin = time.process_time()
        solutions.append(solve(instance))
        cpu.append(time.process_time() - begin)
    first = solutions[0]
    return {
        "network": name,
        "seed": seed,
        "nodes": len(instance.nodes),
        "edges": len(instance.edges),
        "most_alternatives": max(map(len, instance.nodes.values())),
        "cost": first.cost,
        "optimal": all(solution.optimal for solution in solutions),
        "gap": max(solution.gap for solution in solutions),
        "seconds_median": round(statistics.median(solution.seconds for solution in solutions), 4),
        "seconds_most": round(max(solution.seconds for solution in solutions), 4),
        "cpu_seconds_median": round(statistics.median(cpu), 4),
        "cpu_seconds_most": round(max(cpu), 4),
        "counts": dict(first.counts),
    }


def instances() -> Iterator[tuple[str, int | None, Instance]]:
    """Yield (name, seed of random costs, instance)."""
    costs, primitives = modelled_costs(workers_of(board_of("host"))[0]), all_primitives()
    for name, made in REAL.items():
        yield name, None, instance_of(make_problem(made(), costs, primitives))
    for network in NETWORKS:
        for seed in SEEDS:
            yield f"{network.__name__}, drawn", seed, network(np.random.default_rng(seed))


def main() -> None:
    """Solve, print, and write bench/results/pbqp.json."""
    rows = []
    for name, seed, instance in instances():
        row = measure(name, seed, instance)
        rows.append(row)
        proof = "optimal" if row["optimal"] else f"gap {row['gap']:.2%}"
        title = name if seed is None else f"{name} {seed}"
        print(
            f"{title:30}: {row['nodes']:4} nodes, {row['edges']:5} edges, at most "
            f"{row['most_alternatives']:3} alternatives, {proof}, {row['seconds_median']:.3f} s (at most "
            f"{row['seconds_most']:.3f}; of CPU {row['cpu_seconds_median']:.3f}), {row['counts']['searched_nodes']} "
            f"searched, {row['counts']['branches']} branches"
        )
    record = facts("measured", "bench.pbqp") | {
        "layouts": LAYOUTS,
        "primitives_drawn": PRIMITIVES,
        "primitives": len(all_primitives()),
        "runs": RUNS,
        "load_average": os.getloadavg()[0],
    }
    print(write("pbqp", record | {"rows": rows}))


if __name__ == "__main__":
    main()

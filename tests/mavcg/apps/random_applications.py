"""Random small applications: CNNs with branches, split into partitions, some of them parallel."""

import random

from mavcg.apps.application import Application, Cnn, DataEdge, Layer, Partition, RowWindow, in_order
from mavcg.apps.derivation import Chromosome

KINDS = ("conv", "conv", "depthwise", "pool", "add", "activation", "softmax")


def random_cnn(generator: random.Random, name: str) -> Cnn:
    count = generator.randint(2, 7)
    layers: list[Layer] = []
    edges: list[DataEdge] = []
    for number in range(count):
        sources = [number - 1] if number else []
        if number > 1 and generator.random() < 0.3:
            sources.append(generator.randrange(number - 1))
        rows = generator.randint(1, 9)
        window, kind = RowWindow(), generator.choice(KINDS)
        if len(sources) > 1:  # both inputs have as many rows
            rows = layers[sources[0]].out_rows
            if layers[sources[1]].out_rows != rows:
                kind = "softmax"
            else:
                kind = "add"
        elif sources and kind in ("conv", "depthwise", "pool"):
            before = layers[sources[0]].out_rows
            size, stride = generator.randint(1, 3), generator.randint(1, 3)
            pad = generator.randint(0, size // 2)
            if before + 2 * pad >= size:
                window, rows = RowWindow(size, stride, pad), (before + 2 * pad - size) // stride + 1
            else:
                kind = "softmax"
        elif sources and kind in ("add", "activation"):
            rows = layers[sources[0]].out_rows
        layers.append(Layer(f"l{number}", kind, rows, window, generator.randint(0, 50)))
        for source in sources:
            out = layers[source].out_rows
            edges.append(DataEdge(f"l{source}", f"l{number}", out * generator.randint(1, 6), out))
    return Cnn(name, tuple(layers), tuple(edges))


def random_application(seed: int) -> tuple[Application, Chromosome]:
    generator = random.Random(seed)
    cnns = [random_cnn(generator, f"n{i}") for i in range(generator.randint(1, 3))]
    partitions: list[Partition] = []
    parallel: list[frozenset[str]] = []
    for cnn in cnns:
        names = [layer.name for layer in cnn.layers]
        cuts = sorted(generator.sample(range(1, len(names)), min(generator.randint(0, 2), len(names) - 1)))
        own = [names[a:b] for a, b in zip([0, *cuts], [*cuts, len(names)], strict=True)]
        made = [Partition(f"{cnn.name}.{i}", cnn.name, tuple(p), in_order(p)) for i, p in enumerate(own)]
        if len(made) > 1 and generator.random() < 0.6:
            chosen = made if generator.random() < 0.7 else made[:2]
            parallel.append(frozenset(p.name for p in chosen))
        partitions += made
    if len(cnns) > 1 and generator.random() < 0.3:
        parallel.append(frozenset((partitions[0].name, partitions[-1].name)))
    genes = frozenset((c.name, layer.name) for c in cnns for layer in c.layers if generator.random() < 0.6)
    if len(cnns) > 2 and generator.random() < 0.5:  # with two, or with two that are not parallel to each other
        parallel += [frozenset((partitions[0].name, p.name)) for p in partitions if p.cnn == "n1"][:1]
    return Application(tuple(cnns), tuple(partitions), tuple(parallel)), genes

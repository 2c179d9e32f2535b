"""The worked example of the paper: figure 6.1, tables 6.1 to 6.4."""

from typing import Any

from mavcg.apps.application import Application, Cnn, DataEdge, Layer, Partition, firings, in_order, sequential
from mavcg.apps.buffers import edge_data, naive_buffers, reuse_buffers, total_size
from mavcg.apps.csdf import compress
from mavcg.apps.derivation import Chromosome, Derivation

# Table 6.4: layers 3, 4 and 5 of the first CNN process their data by parts.
CHROMOSOME: Chromosome = frozenset(("CNN1", name) for name in ("l3", "l4", "l5"))


def example_application() -> Application:
    """Return the application of section 6.4: two CNNs, of which the second is a pipeline of two partitions.

    Sizes of edges are table 6.1's; rows are those that 32 phases and the sizes of table 6.3 require.
    """
    first = Cnn(
        "CNN1",
        (*(Layer(f"l{i}", "conv", 32) for i in (1, 2, 3)), Layer("l4", "add", 32), Layer("l5", "conv", 32)),
        (
            DataEdge("l1", "l2", 3072, 32),
            DataEdge("l2", "l3", 8192, 32),
            DataEdge("l2", "l4", 8192, 32),
            DataEdge("l3", "l4", 8192, 32),
            DataEdge("l4", "l5", 8192, 32),
        ),
    )
    second = Cnn(
        "CNN2",
        (Layer("l1", "conv", 32), Layer("l2", "conv", 28), Layer("l3", "fully connected"), Layer("l4", "softmax")),
        (DataEdge("l1", "l2", 3072, 32), DataEdge("l2", "l3", 6272, 28), DataEdge("l3", "l4", 10)),
    )
    partitions = (
        Partition("P1", "CNN1", sequential(first).layers, sequential(first).schedule),
        Partition("P2", "CNN2", ("l1", "l2"), in_order(("l1", "l2"))),
        Partition("P3", "CNN2", ("l3", "l4"), in_order(("l3", "l4"))),
    )
    return Application((first, second), partitions, (frozenset(("P2", "P3")),))


def example_tables() -> dict[str, Any]:
    """Return tables 6.1 to 6.3 and the phases and schedules of section 6.5.2, in elements.

    The naive buffers add up to 51466; the paper prints 51446, though its table 6.1 has the same sizes.
    """
    app = example_application()
    data = edge_data(app)
    derived = Derivation(app).derive(CHROMOSOME)
    tables = {"naive": naive_buffers(data), "reuse": reuse_buffers(app, data), "reduced": derived.buffers}
    listed = {
        name: [
            {"edges": [data_of_edge.label for data_of_edge in buffer.edges], "size": buffer.size} for buffer in buffers
        ]
        for name, buffers in tables.items()
    }
    return {
        **{name: total_size(buffers) for name, buffers in tables.items()},
        "buffers": listed["reduced"],
        "tables": listed,
        "phases": {
            cnn.name: {layer.name: derived.phases[(cnn.name, layer.name)] for layer in cnn.layers} for cnn in app.cnns
        },
        "schedules": {p.name: str(compress(tuple(firings(p.schedule)))) for p in derived.app.partitions},
    }

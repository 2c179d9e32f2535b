"""python -m bench.lengths: rows, tables, and the whole way with a small network."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from bench.lengths import __main__ as timing  # noqa: E402
from bench.lengths.networks import NETWORKS, Network  # noqa: E402
from bench.seeded_networks.writer import OnnxWriter  # noqa: E402
from bench.tables.lengths import lengths  # noqa: E402


def test_a_row_has_the_median_of_each_rounds_ratio() -> None:
    row = timing.row_of("net", 5, [(2.0, 1.0), (3.0, 3.0), (1.0, 1.0), (1.2, 1.0), (0.9, 1.0)])
    assert (row["ratio"], row["any_ms"], row["fixed_ms"]) == (1.0, 1.2, 1.0)


def test_the_tables() -> None:
    rows = [timing.row_of("net", n, [(n + 0.1, n), (n + 0.2, n)]) for n in (1, 10)]
    sizes = [{"network": "net", "any_bytes": 12000, "fixed_bytes": 10000, "growth": 1.2}]
    text = lengths({"rounds": 2, "rows": rows, "sizes": sizes})
    assert "| net, 10 at most | 12 kB | 10 kB | 1.20 | 1.080 | 1.150 |" in text
    assert "| net | 10 | 10.150 | 10.000 | 1.015 |" in text


def test_ten_lengths_of_networks_and_five_where_windows_cross() -> None:
    assert [len(network.lengths) for network in NETWORKS.values()] == [10, 10, 5, 5, 5]


@pytest.mark.long
def test_libraries_of_a_small_network(tmp_path: Path) -> None:
    def product() -> object:
        net = OnnxWriter("product")
        made = net.node("MatMul", ["x", net.draw((4, 5), 1.0)])
        return net.model([("x", np.float32, ("n", 4))], [(made, ("n", 5))])

    libraries = timing.libraries_of(Network(product, "x", "{}x4", (1, 3)), tmp_path)  # type: ignore[arg-type]
    rows = timing.measure("product", libraries, 2, 2)
    assert [row["length"] for row in rows] == [1, 3] and all(row["ratio"] > 0 for row in rows)

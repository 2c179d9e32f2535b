"""The table of a library's buffers: nothing that is live at the same time overlaps, in any kind of network."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from mavcg.apps.application_file import read_application_file
from mavcg.apps.library_buffers import memory_json
from mavcg.apps.library_plan import plan_library
from mavcg.model.request import ModelOptions, make_model_request
from tests.mavcg.apps.small_networks import NETWORKS, write_application


def planned_memory(folder: Path, head: str = "", **keys: str) -> dict[str, Any]:
    """Return the memory of a library of the small networks."""
    pytest.importorskip("onnx")
    file = write_application(folder, head, **keys)
    request, _ = make_model_request(file, str(folder / "libapp.so"), ModelOptions(cores=("cortex-a55",), max_error=0.0))
    return memory_json(plan_library(read_application_file(file), request))


def of_network(memory: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [buffer for buffer in memory["buffers"] if buffer["network"] == name]


def assert_apart(buffers: list[dict[str, Any]]) -> None:
    """Assert that buffers that are live in a common phase do not overlap."""
    for a, b in combinations(buffers, 2):
        if a["first"] <= b["last"] and b["first"] <= a["last"]:
            assert a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"], (a, b)


@pytest.mark.parametrize(
    ("head", "keys"),
    [
        ("", {}),
        ('memory = "200 kB"', {}),  # the detector by parts of rows
        ('parallel = [["detector", "tracker"]]', {"recogniser": 'partitions = ["c"]'}),
    ],
)
def test_buffers_fill_the_arena_and_do_not_overlap(head: str, keys: dict[str, str], tmp_path: Path) -> None:
    memory = planned_memory(tmp_path, head, **keys)

    assert max(buffer["offset"] + buffer["bytes"] for buffer in memory["buffers"]) in range(
        memory["peak_bytes"] - 4096, memory["peak_bytes"] + 1
    )
    for name in NETWORKS:
        assert of_network(memory, name)
        assert_apart(of_network(memory, name))
    if "parallel" in head:
        ends = {n: [(b["offset"], b["offset"] + b["bytes"]) for b in of_network(memory, n)] for n in NETWORKS}
        for begin, end in ends["detector"]:
            assert all(end <= other or stop <= begin for other, stop in ends["tracker"])


@pytest.mark.parametrize("limit", ["30 kB", "60 kB"])  # less than the weights, and little more
def test_beyond_the_limit_buffers_are_the_least_that_were_found(limit: str, tmp_path: Path) -> None:
    """So the sum that the refusal names is a limit that is kept."""
    refused = planned_memory(tmp_path, f'memory = "{limit}"')
    sums = refused["peak_bytes"] + refused["weights_bytes"]
    kept = planned_memory(tmp_path, f'memory = "{sums} B"')

    assert refused["peak_bytes"] < 0.5 * planned_memory(tmp_path)["peak_bytes"]
    assert int(limit.split()[0]) * 1000 < kept["peak_bytes"] + kept["weights_bytes"] <= sums


def test_edges_are_those_of_the_file(tmp_path: Path) -> None:
    """Two convolutions and a mean: the first one's ReLU is fused, and a pad, if any, belongs to its reader."""
    edges = [edge for buffer in of_network(planned_memory(tmp_path), "tracker") for edge in buffer["edges"]]
    sources = {edge.split("->")[0].split(":")[0] for edge in edges}
    targets = {edge.split("->")[1].split(":")[0] for edge in edges}

    assert "a" in sources and "c" in targets and ("c" in sources and "y" in targets), edges

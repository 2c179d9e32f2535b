"""`mavcg app`, run as a user runs it."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile


def test_the_papers_example(mavcg: Any) -> None:
    done = mavcg("app", "example", "--paper", "--json")

    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert {"naive", "reuse", "reduced", "buffers", "phases"} <= set(document)
    assert (document["naive"], document["reuse"], document["reduced"]) == (51466, 24586, 19712)
    assert [buffer["size"] for buffer in document["buffers"]] == [3072, 8192, 8192, 256]


def test_the_example_for_people(mavcg: Any) -> None:
    done = mavcg("app", "example", "--paper")

    assert done.status == 0, done.stderr
    assert "51466 elements" in done.stdout and "P1: l1, l2, [l3, l4, l5] x 32" in done.stdout
    assert mavcg("app", "example").status == 2


@pytest.fixture(scope="module")
def chain_onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """chain.onnx: three 3x3 convolutions of 1,4,16,16."""
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(1)
    weights = [onnx.numpy_helper.from_array(rng.random((4, 4, 3, 3), np.float32), f"w{i}") for i in range(3)]
    nodes = [
        onnx.helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"x{i + 1}"], name=f"conv{i}", pads=[1, 1, 1, 1])
        for i in range(3)
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "chain", [value("x0", 1, [1, 4, 16, 16])], [value("x3", 1, [1, 4, 16, 16])], weights
    )
    path: Path = tmp_path_factory.mktemp("chain") / "chain.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.mark.long
def test_a_plan_of_one_network_says_how_far_the_search_is_from_exact(
    mavcg: Any, chain_onnx: Path, tmp_path: Path
) -> None:
    (tmp_path / "app.toml").write_text(f'[[network]]\nname = "one"\nfile = "{chain_onnx}"\n')
    ended = mavcg("app", "plan", tmp_path / "app.toml", "--board", "exynos9820")
    assert ended.status == 0, ended.stderr
    text = " ".join(ended.stdout.split())
    assert "points on the exact front of live peak and time: 1; the genetic search: optimal" in text


@pytest.mark.long
def test_a_plan_of_two_networks(mavcg: Any, chain_onnx: Path, tmp_path: Path) -> None:
    """One of them a pipeline; a plot, and the JSON that scripts rely on."""
    shutil.copy(chain_onnx, tmp_path / "chain.onnx")
    table = '[[network]]\nname = "{}"\nfile = "chain.onnx"\n'
    (tmp_path / "app.toml").write_text(table.format("one") + table.format("two") + 'partitions = "auto:2"\n')
    options = ("--board", "exynos9820", "--plot", tmp_path / "memory.svg", "--generations", "2", "--json")
    done = mavcg("app", "plan", tmp_path / "app.toml", *options)

    assert done.status == 0, done.stderr
    plan = json.loads(done.stdout)
    assert {"weights_bytes", "naive_bytes", "reuse_per_cnn_bytes", "reuse_joint_bytes", "arena_bytes"} <= set(plan)
    assert plan["file_weights_bytes"] == 2 * 3 * 4 * 4 * 9 * 4
    assert plan["weights_bytes"] == plan["weight_bytes"] < plan["separate_weight_bytes"]  # of one file, twice
    image = 4 * 16 * 16 * 4
    assert plan["naive_bytes"] >= 7 * image  # three edges, four with the pipeline's copy, and what pads and transposes
    assert plan["naive_bytes"] >= plan["reuse_per_cnn_bytes"] >= plan["reuse_joint_bytes"]
    assert plan["reuse_joint_bytes"] >= plan["front"][plan["chosen"]]["bytes"]
    assert plan["lower_bound_bytes"] <= plan["arena_bytes"] and plan["optimal"] == (plan["gap"] == 0)
    for point in plan["front"]:
        assert point["is"] == "modelled" and set(point["throughput"]) == set(point["phases"]) == {"one", "two"}
        assert all(count >= 1 for count in point["phases"]["one"].values())
    assert set(plan["partitions"]) == {"one", "two.0", "two.1"}
    assert (tmp_path / "memory.svg").read_text().startswith("<?xml")


def test_a_limit_that_reuse_meets_searches_nothing(mavcg: Any, chain_onnx: Path, tmp_path: Path) -> None:
    shutil.copy(chain_onnx, tmp_path / "chain.onnx")
    (tmp_path / "app.toml").write_text('memory = "1 MB"\n[[network]]\nname = "n"\nfile = "chain.onnx"\n')
    done = mavcg("app", "plan", tmp_path / "app.toml", "--board", "exynos9820", "--json")

    assert done.status == 0, done.stderr
    (point,) = json.loads(done.stdout)["front"]
    assert set(point["phases"]["n"].values()) == {1}


def images_onnx(path: Path, channels: int, side: int, layers: int) -> Path:
    """Convolutions of an image, the first with stride 2; weights are seeded."""
    onnx = pytest.importorskip("onnx")
    rng, helper = np.random.default_rng(layers), onnx.helper
    widths = [3] + [channels] * layers
    weights = [
        onnx.numpy_helper.from_array(rng.standard_normal((b, a, 3, 3), np.float32), f"w{n}")
        for n, (a, b) in enumerate(pairwise(widths))
    ]
    nodes = [
        helper.make_node(
            "Conv", [f"x{n}", f"w{n}"], [f"x{n + 1}"], name=f"conv{n}", pads=[1] * 4, strides=[2 - (n > 0)] * 2
        )
        for n in range(layers)
    ]
    value = helper.make_tensor_value_info
    inputs, outputs = value("x0", 1, [1, 3, side, side]), value(f"x{layers}", 1, [1, channels, side // 2, side // 2])
    graph = helper.make_graph(nodes, "images", [inputs], [outputs], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def _constants_bytes(library: Path) -> int:
    """Return the bytes that a library has as constants, read from its file by pyelftools."""
    with library.open("rb") as file:
        sections = ELFFile(file).iter_sections()
        return sum(section["sh_size"] for section in sections if section.name == ".mavcg_constants")


@pytest.mark.long
@pytest.mark.parametrize("limit", ["", 'memory = "200 kB"\n'])
def test_what_a_plan_says_a_build_does_to_the_byte(mavcg: Any, tmp_path: Path, limit: str) -> None:
    """Three networks: without a limit, and with one that needs layers by parts of rows."""
    table = '[[network]]\nname = "{}"\nfile = "{}"\n'
    networks = [("one", 8, 64, 3), ("two", 16, 48, 2), ("three", 4, 96, 4)]
    files = [images_onnx(tmp_path / f"{name}.onnx", *sizes).name for name, *sizes in networks]
    file = tmp_path / "app.toml"
    file.write_text(limit + "".join(table.format(n[0], f) for n, f in zip(networks, files, strict=True)))
    options = ("--board", "exynos9820", "--json")
    done = mavcg("app", "plan", file, "--generations", "1", *options)
    assert done.status == 0, done.stderr
    plan = json.loads(done.stdout)
    ended = mavcg("app", "build", file, "-o", tmp_path / "libapp.so", *options)

    assert ended.status == 0, ended.stderr
    built = json.loads(ended.stdout)
    keys = ("arena_bytes", "separate_arena_bytes", "scratch_bytes", "weight_bytes", "separate_weight_bytes", "networks")
    assert {key: plan[key] for key in keys} == {key: built[key] for key in keys}
    memory = built["memory"]
    assert {key: plan[key] for key in memory} == memory and memory["peak_bytes"] == built["arena_bytes"]
    assert memory["weights_bytes"] == _constants_bytes(tmp_path / "libapp.so")
    assert (limit == "") == (plan["arena_bytes"] + plan["weight_bytes"] > 200_000)


@pytest.mark.long
def test_a_limit_that_a_plan_does_not_meet_is_refused_by_a_build_with_the_same_bytes(
    mavcg: Any, chain_onnx: Path, tmp_path: Path
) -> None:
    file = tmp_path / "app.toml"
    file.write_text(f'memory = "1 kB"\n[[network]]\nname = "n"\nfile = "{chain_onnx}"\n')
    options = ("--board", "exynos9820", "--strategy", "engine")
    done = mavcg("app", "plan", file, "--generations", "0", *options, "--json")
    assert done.status == 0, done.stderr
    plan = json.loads(done.stdout)
    ended = mavcg("app", "build", file, "-o", tmp_path / "libapp.so", *options)

    assert not plan["meets_constraints"] and ended.status == 2 and not (tmp_path / "libapp.so").exists()
    weights, arena = plan["weight_bytes"], plan["arena_bytes"]
    assert f"takes {weights + arena}: {weights} of packed weights and {arena} of buffers" in ended.stderr
    text = " ".join(mavcg("app", "plan", file, "--generations", "0", *options).stdout.split())
    assert f"the library of `mavcg app build`: arena {arena:,} bytes" in text and "not all limits are met" in text


@pytest.mark.long
def test_a_plan_of_sizes_alone_says_why_it_is_not_built(mavcg: Any, chain_onnx: Path, tmp_path: Path) -> None:
    (tmp_path / "app.toml").write_text(f'[[network]]\nname = "n"\nfile = "{chain_onnx}"\nprecision = "int8"\n')
    done = mavcg("app", "plan", tmp_path / "app.toml", "--board", "exynos9820", "--json")

    assert done.status == 0, done.stderr
    plan = json.loads(done.stdout)
    assert "precision = 'int8': node" in plan["not_buildable"] and "networks" not in plan
    assert plan["arena_bytes"] == plan["front"][plan["chosen"]]["bytes"]


def test_faults_of_a_plan_are_named(mavcg: Any, chain_onnx: Path, tmp_path: Path) -> None:
    shutil.copy(chain_onnx, tmp_path / "chain.onnx")
    network = '[[network]]\nname = "n"\nfile = "chain.onnx"\n'
    for text, words in (
        (network + 'partitions = ["conv7"]\n', "line 1: network 'n': partitions: 'conv7' is not a layer"),
        (network + 'partitions = "auto:99"\n', "too few for 99 partitions"),
        ('parallel = [["n", "m"]]\n' + network, "parallel: 'm' is not a network or partition"),
        (network.replace("chain", "none"), 'line 3: network[0].file: "none.onnx" does not exist'),
    ):
        (tmp_path / "app.toml").write_text(text)
        done = mavcg("app", "plan", tmp_path / "app.toml", "--board", "exynos9820")
        assert done.status == 2 and words in " ".join(done.stderr.split()), done.stderr


@pytest.mark.long
def test_a_schedule_with_brackets(mavcg: Any, chain_onnx: Path, tmp_path: Path) -> None:
    """Layers' names from a plan without one; kept, printed; one that cannot run is refused by line."""
    shutil.copy(chain_onnx, tmp_path / "chain.onnx")
    table = '[[network]]\nname = "net"\nfile = "chain.onnx"\n'
    file = tmp_path / "app.toml"
    file.write_text(table)
    options = ("--board", "exynos9820", "--generations", "0", "--json")
    first = json.loads(mavcg("app", "plan", file, *options).stdout)
    image, *head, conv, last = first["partitions"]["net"]
    assert first["schedules"]["net"].startswith(f"{{{image}}}, {head[0]}, ")

    file.write_text(table + f'schedule = "{", ".join(head)}, [{conv}] x 16, {last}"\n')
    done = mavcg("app", "plan", file, *options)
    assert done.status == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["schedules"] == {"net": f"{{{image}}}, {', '.join(head)}, [{conv}] x 16, {last}"}
    assert plan["front"][plan["chosen"]]["phases"]["net"] == dict.fromkeys([image, *head, last], 1) | {conv: 16}

    file.write_text(table + f'schedule = "[{", ".join(head)}] x 2"\n')
    refused = mavcg("app", "plan", file, *options)
    assert refused.status == 2 and f"line 4: network[0].schedule: layer '{conv}' of net is missing" in refused.stderr

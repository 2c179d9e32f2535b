"""`mavcg plan`, run as a user runs it."""

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from mavcg.graph.networks import network


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "cache"))


def planned(mavcg: Any, *arguments: str | Path) -> dict[str, Any]:
    done = mavcg("plan", *arguments, "--json")
    assert done.status == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_json_has_what_scripts_rely_on(mavcg: Any) -> None:
    document = planned(mavcg, "vgg16", "--paper-variant", "--accelerator", "setup-a", "--search", "pruned")

    assert len(document["layers"]) == 16
    for layer in document["layers"]:
        assert {"oc", "ic", "oh", "ow"} <= set(layer["tile"]) and set(layer["traffic_bytes"]) == {
            "input",
            "weight",
            "output",
        }
        assert layer["bound"] in ("compute", "memory") and layer["macs"] > 0 and layer["metric"] > 0
        assert all(1 <= layer["tile"][loop] <= length for loop, length in layer["loops"].items())
    # Table 8.5, VGGNet-16: 3541.530 M, and 27,552 in setup A.
    assert round(document["space"]["unpruned"] / 1e6, 3) == 3541.530
    assert document["space"]["pruned"] == 27552
    assert document["seconds"] >= 0


def test_the_exact_search_is_no_worse_than_the_pruned_one_and_as_good_as_the_exhaustive(mavcg: Any) -> None:
    asked = ("alexnet", "--paper-variant", "--accelerator", "setup-a")
    metric = {
        search: [layer["metric"] for layer in planned(mavcg, *asked, "--search", search)["layers"]]
        for search in ("exact", "pruned", "exhaustive")
    }

    assert metric["exact"] == metric["exhaustive"]
    assert all(ours >= theirs for ours, theirs in zip(metric["exact"], metric["pruned"], strict=True))


def test_a_second_plan_is_the_first(mavcg: Any, tmp_path: Path) -> None:
    first = planned(mavcg, "squeezenet", "--accelerator", "setup-b")
    again = planned(mavcg, "squeezenet", "--accelerator", "setup-b")
    anew = planned(mavcg, "squeezenet", "--accelerator", "setup-b", "--no-cache")

    assert [path for path in (tmp_path / "cache").rglob("plans/**/*") if path.is_file()]
    assert first["layers"] == again["layers"] == anew["layers"]


def test_a_board_has_a_plan_for_each_cluster(mavcg: Any) -> None:
    document = planned(mavcg, "squeezenet", "--board", "exynos9820")

    assert len(document["clusters"]) == 3
    fastest = min(document["clusters"].values(), key=lambda cluster: cluster["predicted_ms"])
    assert document["layers"] == fastest["layers"]


def test_levels_are_tiles_within_tiles(mavcg: Any) -> None:
    document = planned(mavcg, "squeezenet", "--board", "rk3588", "--levels", "--layer", "fire9_expand3x3")

    assert len(document["clusters"]) == 2  # both of its clusters of A76 are one machine
    for cluster in document["clusters"].values():
        (layer,) = cluster["levels"]
        assert len(layer["tiles"]) >= 2
        for inner, outer in pairwise(layer["tiles"]):
            assert all(inner["tile"][loop] <= outer["tile"][loop] for loop in outer["tile"])
            assert sum(inner["traffic_bytes"].values()) >= sum(outer["traffic_bytes"].values())


def test_baselines_and_floors(mavcg: Any) -> None:
    document = planned(mavcg, "vgg16", "--paper-variant", "--accelerator", "setup-a", "--baselines")

    total = sum(document["traffic_bytes"].values())
    assert round(total / 2**20, 1) == 702.2  # NOTES: exhaustive search of VGG in setup A
    for one in document["baselines"].values():
        assert sum(one["traffic_bytes"].values()) >= total
    assert document["floors_bytes"]["communication_lower_bound"] <= total
    assert document["floors_bytes"]["no_reload"] <= total


def test_text_is_written_checked_and_run(mavcg: Any, tmp_path: Path) -> None:
    text = tmp_path / "conv5.plan"
    document = planned(
        mavcg, "alexnet", "--paper-variant", "--accelerator", "setup-a", "--halo", "--layer", "conv5", "--emit-ir", text
    )
    (layer,) = document["layers"]

    checked = mavcg("plan", "--check-ir", text)
    assert checked.status == 0 and "1 plans" in checked.stdout
    done = mavcg("plan", "--run-ir", text, "--json")
    assert done.status == 0, done.stderr
    (ran,) = json.loads(done.stdout)["layers"]
    assert {key: ran["moved_bytes"][key] for key in ("input", "weight", "output")} == layer["traffic_bytes"]

    # The checksum is that of the layer as the reference computes it.
    node = next(n for n in network("alexnet", True).nodes if n.origin == "conv5")
    rng = np.random.default_rng(0)
    x = rng.integers(-7, 8, (1, 384, 13, 13), dtype=np.int32)
    w = rng.integers(-7, 8, (256, 384, 3, 3), dtype=np.int32)
    expected = _conv(x, w)
    assert node.op == "conv2d" and ran["output_shape"] == list(expected.shape)
    assert ran["checksum"] == hashlib.sha256(np.ascontiguousarray(expected, dtype="<i8").tobytes()).hexdigest()


def _conv(x: Any, w: Any) -> Any:
    """Stride 1, padding 1, kernel 3: one product of matrices a tap."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    total = np.zeros((w.shape[0], x.shape[2] * x.shape[3]))
    for r in range(3):
        for c in range(3):
            part = padded[0, :, r : r + x.shape[2], c : c + x.shape[3]].reshape(x.shape[1], -1)
            total += w[:, :, r, c].astype(np.float64) @ part
    return total.reshape(1, w.shape[0], *x.shape[2:]).astype(np.int64)


def test_a_layer_as_c(mavcg: Any, tmp_path: Path) -> None:
    out = tmp_path / "layer.c"
    planned(mavcg, "alexnet", "--accelerator", "setup-a", "--layer", "conv3", "--emit-c", out)

    assert "void run(" in out.read_text()


@pytest.mark.long
def test_pictures(mavcg: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    planned(mavcg, "alexnet", "--accelerator", "setup-a", "--layer", "conv3", "--plot", tmp_path / "pictures")

    names = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert names == ["roofline-conv3.svg", "traffic.svg"]
    for name in names:
        texts = [e.text for e in ElementTree.parse(tmp_path / "pictures" / name).iter() if e.tag.endswith("text")]
        assert any("mavcg" in (text or "") or "roofline" in (text or "") for text in texts)


@pytest.fixture
def wide_model(tmp_path: Path) -> Path:
    """A convolution of one row of 7500 pixels, of which no row fits setup A's memories."""
    onnx = pytest.importorskip("onnx")
    x = onnx.helper.make_tensor_value_info("x", 1, ["batch", 16, 1, 7500])
    y = onnx.helper.make_tensor_value_info("y", 1, None)
    w = onnx.numpy_helper.from_array(np.ones((16, 16, 1, 3), np.float32), "w")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="a layer with a long name that tables have to show")
    graph = onnx.helper.make_graph([node], "wide", [x], [y], [w])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, tmp_path / "wide.onnx")
    return tmp_path / "wide.onnx"


def test_an_error_names_the_options_by_which_a_layer_fits(mavcg: Any, wide_model: Path) -> None:
    asked = ("plan", wide_model, "--accelerator", "setup-a")
    refused = mavcg(*asked)
    assert refused.status == 2 and "or plan with tiles of any size (--full-grid)" in refused.stderr
    assert "of any size (--search exact --full-grid)" in mavcg(*asked, "--search", "pruned").stderr
    done = mavcg(*asked, "--full-grid")
    assert done.status == 0, done.stderr
    names = "".join(line.split("│")[1].strip() + " " for line in done.stdout.splitlines() if line.startswith("│"))
    assert "a layer with a long name that tables have to show" in names


def test_planners_that_have_no_tile_are_left_out_of_a_comparison(mavcg: Any, wide_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    asked = ("plan", wide_model, "--accelerator", "setup-a", "--full-grid", "--baselines", "--plot", tmp_path / "here")
    done = mavcg(*asked, "--json")
    assert done.status == 0, done.stderr
    for name in ("zhang", "ma", "smart-shuttle"):
        assert f"{name} is left out of the comparison: layer " in done.stderr
    document = json.loads(done.stdout)
    assert "baselines" not in document and document["floors_bytes"]["no_reload"] > 0
    assert (tmp_path / "here" / "traffic.svg").is_file()


def test_a_batch_is_refused_by_the_files_name(mavcg: Any, wide_model: Path) -> None:
    done = mavcg("plan", wide_model, "--accelerator", "setup-a", "--shape", "x=2x16x1x7500")
    assert done.status == 2 and done.stderr.startswith(f"mavcg: {wide_model}: node 'a layer")
    assert "a batch of 2 images" in done.stderr and "with batch size 1 or a free batch dimension" in done.stderr


def test_c_of_a_whole_network_comes_with_its_weights_and_a_blas_runtime(mavcg: Any, tmp_path: Path) -> None:
    done = mavcg("plan", "squeezenet", "--accelerator", "setup-d", "--emit-c", tmp_path / "net.c")
    assert done.status == 0 and "net.weights.bin" in done.stderr
    source = (tmp_path / "net.c").read_text()
    assert source.count("static void layer_") == 26 and "int net(const float *weights" in source
    assert "/* input: float [1, 224, 224, 3], output: float [1, 1000], row-major. */" in source
    assert (tmp_path / "net.weights.bin").stat().st_size == 4 * 1_235_496
    assert "cblas_sgemm" in (tmp_path / "plan_blas.h").read_text()


def test_people_get_a_table(mavcg: Any) -> None:
    done = mavcg("plan", "vgg16", "--accelerator", "setup-a")

    assert done.status == 0
    assert "conv5_3" in done.stdout and "not measured" in done.stdout and "search space" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no MODEL"),
        (("vgg16",), "--board"),
        (("vgg16", "--board", "rk3588", "--accelerator", "setup-a"), "name one machine"),
        (("vgg16", "--accelerator", "setup-z"), "setup-b"),
        (("vgg99", "--accelerator", "setup-a"), "built-in network"),
        (("missing.onnx", "--accelerator", "setup-a"), "cannot be read"),
        (("missing.onnx", "--accelerator", "setup-a", "--paper-variant"), "--paper-variant"),
        (("vgg16", "--accelerator", "setup-a", "--search", "magic"), "exhaustive"),
        (("vgg16", "--accelerator", "setup-a", "--metric", "beauty"), "latency"),
        (("vgg16", "--accelerator", "setup-a", "--search", "pruned", "--halo"), "--search exact"),
        (("vgg16", "--accelerator", "setup-a", "--layer", "conv3_9"), "conv3_"),
        (("vgg16", "--accelerator", "setup-a", "--shape", "x=1x3x8x8"), "built-in"),
        (("--check-ir", "missing.plan"), "cannot be read"),
        (("vgg16", "--check-ir", "missing.plan"), "MODEL"),
        (("--run-ir", "missing.plan", "--halo"), "leave out --halo"),
        (("--check-ir", "missing.plan", "--emit-c", "made.c"), "leave out --emit-c"),
    ],
)
def test_bad_input_is_one_line(mavcg: Any, arguments: tuple[str, ...], words: str) -> None:
    done = mavcg("plan", *arguments)

    assert done.status == 2
    assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_memories_that_are_too_small(mavcg: Any, tmp_path: Path) -> None:
    small = tmp_path / "small.json"
    small.write_text(
        '{"bandwidth": 1, "frequency": 1, "mem_size": [1, 1, 1], "pe_len": [16, 16], "pe_mapping": [["IC"], ["OC"]]}'
    )
    done = mavcg("plan", "vgg16", "--accelerator", small)

    assert done.status == 2 and "conv1_1" in done.stderr and "bytes" in done.stderr


def test_a_depthwise_layer_is_not_faster_than_the_elements_that_it_keeps_busy(mavcg: Any, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    machine = {
        "bandwidth": 12.8,
        "frequency": 0.25,
        "mem_size": [128, 64, 128],
        "pe_len": [12, 20],
        "pe_mapping": [["OC"], ["IC"]],
    }
    (tmp_path / "array.json").write_text(json.dumps(machine))
    tensors = [onnx.helper.make_tensor_value_info(n, 1, [1, 96, 56, 56]) for n in "xy"]
    w = onnx.numpy_helper.from_array(np.ones((96, 1, 3, 3), np.float32), "w")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], group=96, pads=[1] * 4)
    graph = onnx.helper.make_graph([node], "depthwise", tensors[:1], tensors[1:], [w])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9),
        tmp_path / "depthwise.onnx",
    )
    asked = (tmp_path / "depthwise.onnx", "--accelerator", tmp_path / "array.json")

    for search in ("exact", "pruned", "exhaustive"):
        (layer,) = planned(mavcg, *asked, "--search", search)["layers"]
        assert layer["bound"] == "compute" and layer["pe_utilisation"] == pytest.approx(1 / 240)
        assert layer["gmac_per_s"] == pytest.approx(0.25)  # one multiply-accumulate a cycle
    assert "0.417 %" in mavcg("plan", *asked).stdout


def test_the_papers_variant_is_timed_as_its_algorithm_4_does(mavcg: Any) -> None:
    asked = ("vgg16", "--accelerator", "setup-a", "--layer", "conv1_1")
    (paper,) = planned(mavcg, *asked, "--paper-variant")["layers"]
    (busy,) = planned(mavcg, *asked)["layers"]

    assert paper["pe_utilisation"] == busy["pe_utilisation"] == 3 / 16 and paper["tile"] == busy["tile"]
    assert busy["gmac_per_s"] <= 3 / 16 * 261.12 < paper["gmac_per_s"]

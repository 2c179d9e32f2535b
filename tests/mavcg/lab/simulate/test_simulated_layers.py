"""Simulated times of single steps beside those of a whole simulated run, and the store of them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mavcg.choose.predict.predict import Prediction
from mavcg.choose.predict.work import INPUT, OUTPUT, WEIGHT, StepWork, Touch
from mavcg.errors import ProfileError
from mavcg.hardware.core import Core
from mavcg.kernels.primitives.sparse.family import BLOCK_ROWS, even_packed, pack_sparse
from mavcg.lab.simulate import simulated_layers
from mavcg.lab.simulate.model_run import simulate_model
from mavcg.lab.simulate.row_windows import WindowEstimate
from mavcg.lab.simulate.simulated_layers import step_calls
from mavcg.lab.simulate.simulated_steps import simulate_step
from mavcg.model.estimating import predict_file
from mavcg.model.model import build_model
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.profiles.load import load_board, load_core
from mavcg.profiles.timing import load_timing
from mavcg.specs.model_program import OperandAddress

BOARD = "exynos9820"


@pytest.fixture(scope="module")
def built_library(tiny_onnx: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny network, built layer by layer."""
    return built(tiny_onnx, tmp_path_factory.mktemp("board"))


@pytest.fixture
def library(built_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same; what is simulated is kept in a fresh folder."""
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "cache"))
    return built_library


def built(model: Path, folder: Path) -> Path:
    request, _ = make_model_request(model, str(folder / "libmodel.so"), ModelOptions(board=BOARD))
    build_model(replace(request, depth_first="off"))
    return folder / "libmodel.so"


@pytest.fixture
def small_network(tmp_path: Path) -> Path:
    """Convolutions of 3x3, depthwise and 1x1, and a pool, on images that level 1 does not hold."""
    rng, path = np.random.default_rng(0), tmp_path / "small.onnx"
    shapes = {"w1": (24, 3, 3, 3), "w2": (24, 1, 3, 3), "w3": (48, 24, 1, 1)}
    weights = [numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in shapes.items()]
    conv: dict[str, Any] = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], strides=[2, 2], **conv),
        helper.make_node("Conv", ["a", "w2"], ["b"], group=24, **conv),
        helper.make_node("Conv", ["b", "w3"], ["c"], kernel_shape=[1, 1]),
        helper.make_node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "small",
        [info("x", TensorProto.FLOAT, (1, 3, 64, 64))],
        [info("y", TensorProto.FLOAT, (1, 48, 16, 16))],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


@pytest.mark.long
@pytest.mark.parametrize("name", ["cortex-a75", "cortex-a55"])
def test_steps_take_what_they_take_in_a_whole_run(
    name: str, small_network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step is simulated by itself, and again in a run of the library on the same core."""
    monkeypatch.setattr("mavcg.choose.predict.predict.unsure_because", lambda step, worker: "every one")
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path / "cache"))
    board, library = load_board(BOARD), built(small_network, tmp_path)
    board = replace(board, clusters=tuple(cluster for cluster in board.clusters if cluster.core == name))
    prediction = predict_file(library, board, 1, {}, 1, simulator=simulated_layers.simulated_steps)

    core = load_core(name)
    whole = simulate_model(library, core, load_timing(core), board)
    assert [layer.work.name for layer in prediction.layers] == [step.name for step in whole.steps]
    alone = [layer.on[name].ms for layer in prediction.layers]
    together = [step.cycles / whole.figures.ghz / 1e6 for step in whole.steps]
    large = [number for number, ms in enumerate(together) if ms >= 0.1 * sum(together)]
    assert {layer.on[name].source for layer in prediction.layers} == {"simulated"}
    assert [alone[n] for n in large] == pytest.approx([together[n] for n in large], rel=0.1)
    assert sum(alone) == pytest.approx(sum(together), rel=0.1)


@pytest.fixture(scope="module")
def predicted(built_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prediction]:
    """A prediction of the tiny network, whose simulated steps are kept from then on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAVCG_CACHE", str(tmp_path_factory.mktemp("kept")))
        yield predict_file(built_library, load_board(BOARD), 1, {}, 1, simulator=simulated_layers.simulated_steps)


def test_a_second_prediction_simulates_nothing(
    predicted: Prediction, built_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated_layers, "simulate_step", lambda *_: pytest.fail("simulated again"))
    second = predict_file(built_library, load_board(BOARD), 1, {}, 1, simulator=simulated_layers.simulated_steps)

    assert any(cost.source == "simulated" for layer in predicted.layers for cost in layer.on.values())
    assert [layer.on for layer in second.layers] == [layer.on for layer in predicted.layers]


@pytest.mark.long
def test_facts_of_the_core_are_a_part_of_the_key(
    predicted: Prediction, built_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = load_board(BOARD)
    seen: list[Any] = []

    def watched(*given: Any) -> WindowEstimate:
        seen.append(given)
        return simulate_step(*given)

    monkeypatch.setattr(simulated_layers, "simulate_step", watched)
    clusters = tuple(replace(each, max_khz=2 * (each.max_khz or 10**6)) for each in board.clusters)
    faster = replace(board, clusters=clusters)
    predict_file(built_library, faster, 1, {}, 1, simulator=simulated_layers.simulated_steps)

    assert seen


@pytest.mark.long
def test_two_clusters_of_one_core_are_simulated_with_their_own_clocks(
    built_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapdragon 865 has such clusters: three Cortex-A77, and a fourth one with a higher clock and more level 2."""
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path))
    board = load_board(BOARD)
    slow = board.clusters[0]
    prime = replace(slow, cpus=(max(cpu for each in board.clusters for cpu in each.cpus) + 1,), max_khz=3 * 10**6)
    clocks: set[float] = set()

    def watched(*given: Any) -> WindowEstimate:
        clocks.add(given[2].ghz)
        return simulate_step(*given)

    monkeypatch.setattr(simulated_layers, "simulate_step", watched)
    two = replace(board, clusters=(slow, prime))
    predict_file(built_library, two, 1, {}, 1, simulator=simulated_layers.simulated_steps)

    assert clocks == {(slow.max_khz or 0) / 1e6, 3.0}


@pytest.mark.long
def test_a_core_without_timing_stays_modelled(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(core: Core) -> None:
        raise ProfileError(f"{core.name}: no timing")

    monkeypatch.setattr(simulated_layers, "load_timing", refuse)
    prediction = predict_file(library, load_board(BOARD), 1, {}, 1, simulator=simulated_layers.simulated_steps)
    unsure = [layer for layer in prediction.layers if layer.unsure]

    assert unsure and all(cost.source == "modelled" for layer in unsure for cost in layer.on.values())
    assert {why for layer in unsure for why in layer.not_simulated.values()} == {
        f"{name}: no timing" for name in ("cortex-a55", "cortex-a75", "exynos-m4")
    }


def small_work(begin: int, weights: int) -> StepWork:
    touches = (
        Touch(INPUT, "arena", begin, 4096, 4096),
        Touch(WEIGHT, "constants", weights, 640, 640),
        Touch(OUTPUT, "output 0", 0, 4096, 4096),
    )
    operands = (
        OperandAddress("arena", begin),
        OperandAddress("constants", weights),
        OperandAddress("output", 0, 0),
        OperandAddress("fault"),
    )
    return StepWork("s", "conv2d", "k", "conv2d_f32", 8, 2, 100, 200, touches, operands=operands)


def test_equal_steps_of_a_network_are_equal_calls() -> None:
    """Constants lie elsewhere in each step of a repeated block; nothing else tells them apart."""
    works = [small_work(0, 640 * number) for number in range(6)]
    spec: Any = type("Spec", (), {"scratch_bytes": 0})()
    calls = [step_calls(works, number, spec, "generic", 4096) for number in (3, 4)]

    assert calls[0] == calls[1]
    assert len(calls[0].operands) == 4 and len(set(calls[0].operands)) == 4
    assert [own.by_rows for own in calls[0].own] == [True, False, True]
    assert [own.written for own in calls[0].own] == [False, False, True]
    assert sum(each.bytes for each in calls[0].before) >= 2 * 4096


@pytest.mark.parametrize(("rows", "blocks", "terms"), [(1, 7, 20), (BLOCK_ROWS, 3, 9), (1, 1, 1)])
def test_packed_weights_of_a_size_have_the_form_of_sparse_ones(rows: int, blocks: int, terms: int) -> None:
    """The generated weights have the size and number of blocks of real ones, sorted terms in range, valid counts."""
    kept = np.random.default_rng(0).uniform(size=(blocks, 1, terms)) < 0.5
    kept[0, 0, 0] = True
    real = pack_sparse(np.repeat(kept, rows, axis=1).reshape(blocks * rows, terms).astype(np.float32), rows, 4)
    made = even_packed(real.nbytes, blocks, rows, terms, 4)

    assert made.nbytes == real.nbytes
    begins = made[: blocks + 1].view(np.int32)
    assert begins[0] == 0 and begins[-1] == real[: blocks + 1].view(np.int32)[-1] and (np.diff(begins) >= 0).all()
    offsets = made[blocks + 1 :].reshape(-1, 1 + rows)[:, 0].copy().view(np.int32)
    assert ((offsets >= 0) & (offsets < 4 * terms) & (offsets % 4 == 0)).all()
    for begin, end in zip(begins, begins[1:], strict=False):
        assert (np.diff(offsets[begin:end]) > 0).all()

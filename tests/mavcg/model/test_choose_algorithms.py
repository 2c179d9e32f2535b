"""The choice of algorithms: by prediction or as a strategy selects, within a number of bytes of weights."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from bench.jit import host_machine
from bench.program_runner import ProgramRunner
from mavcg.choose.algorithms.questions import ModelQuestion
from mavcg.choose.algorithms.strategies import ENGINE
from mavcg.choose.lowering.kernel_code import KernelCode, version_symbols
from mavcg.choose.lowering.lower import weight_sizes
from mavcg.choose.lowering.memory_plan import plan_memory
from mavcg.choose.lowering.pack_weights import pack_weights
from mavcg.choose.lowering.step_list import plan_lowered
from mavcg.choose.plan import Plan
from mavcg.choose.predict.program_work import step_works
from mavcg.choose.predict.spec_text import read_spec
from mavcg.cost.board_model import board_model
from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.graph.reference import run
from mavcg.hardware.board import Board
from mavcg.model.choose_algorithms import choose_algorithms
from mavcg.model.model_request import PlanContext
from mavcg.model.note import model_note
from mavcg.model.report import primitives_json, selection_sentence, weights_sentence
from mavcg.model.request import ModelOptions, SelectionOptions, make_model_request, parse_size
from mavcg.passes.graph.pipeline import optimise
from mavcg.profiles.load import cores_for, load_board
from mavcg.specs.packed_constant import PackedConstant
from mavcg.specs.serialize import to_json
from mavcg.toolchain.target import host_target, parse_target


def net(side: int = 12, channels: int = 24) -> Graph:
    """An input in N, C, H, W, 3x3 convolutions with a residual, a pool, a concatenation of two 1x1."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("net")
    x = b.input("x", TensorType("f32", (1, 3, side, side)))
    image = b.add("transpose", [x], perm=[0, 2, 3, 1])

    def conv(x: str, m: int, k: int, name: str) -> str:
        w = rng.normal(0, 0.2, (m, k, k, b.types[x].shape[3])).astype(np.float32)
        bias = b.constant(rng.normal(0, 0.2, m).astype(np.float32))
        return b.add("conv2d", [x, b.constant(w), bias], origin=name, pads=(k // 2,) * 4, act="relu")

    one = conv(image, channels, 3, "one")
    two = conv(one, channels, 3, "two")
    total = b.add("add", [one, two])
    pooled = b.add("max_pool2d", [total], kernel=(3, 3), stride=(2, 2), pads=(0, 0, 1, 1))
    parts = [conv(pooled, channels, 1, "left"), conv(pooled, 2 * channels, 3, "right")]
    return optimise(b.finish([b.add("concat", parts, axis=3)]))


@cache
def how_small(strategy: str) -> Plan:
    """The choice for a small net, which several tests look at."""
    return how(net(8, 16), strategy)


def how(graph: Graph, strategy: str, max_size: int | None = None, board: Board | None = None) -> Plan:
    """For a board of x86 cores of the host's kind, or one that is given."""
    target = parse_target(board.target) if board else host_target()
    cores = cores_for(board.cores) if board else ()
    where = board or load_board("rk3588")
    question = ModelQuestion(strategy, Path("/nowhere"), 1e-4) if strategy == ENGINE else ModelQuestion(strategy)
    model = board_model(cores, target, where)
    return choose_algorithms(Plan(graph), PlanContext(model, question, max_size))


@pytest.fixture(autouse=True)
def no_costs_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MAVCG_CACHE", str(tmp_path))


RK3588 = load_board("rk3588")


@pytest.mark.sample(1)
@pytest.mark.parametrize("strategy", ["pbqp", "local", "family:direct_blocked"])
def test_a_strategys_program_computes_the_graph(strategy: str) -> None:
    graph = net()
    chosen_algorithms = how(graph, strategy)
    rng = np.random.default_rng(1)
    given = rng.normal(0, 1, graph.shape("x")).astype(np.float32)
    (got,), (want,) = ProgramRunner(chosen_algorithms.lowered, host_machine()).run(given), run(graph, given, wide=True)
    assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()
    made = [node["primitive"] for node in chosen_algorithms.selection["nodes"]]
    assert len(made) == 4 and chosen_algorithms.selection["strategy"] == strategy
    if strategy == "local":
        assert not any(
            node.op == "transpose" for node in chosen_algorithms.graph.nodes
        )  # the input is in CHW as it comes
        assert all(name.endswith("_chw_chw") for name in made)


@pytest.mark.long
def test_what_the_engine_does_itself_stays_a_conv2d() -> None:
    chosen_algorithms = how(net(), "family:implicit", board=RK3588)
    ops = [node.op for node in chosen_algorithms.graph.nodes]
    assert ops.count("conv2d") == 4 and "primitive_conv2d" not in ops
    assert how(net(), ENGINE, board=RK3588).selection == {"strategy": ENGINE}


@pytest.mark.long
def test_the_note_names_primitives_conversions_and_bytes_of_weights() -> None:
    chosen_algorithms = how(net(), "family:direct_blocked", board=RK3588)
    plan = replace(plan_lowered(chosen_algorithms.lowered), selection=chosen_algorithms.selection)
    code = KernelCode((), {"generic": {}})
    vars(code)["needs"] = dict.fromkeys(version_symbols(plan.lowered.specs, ["generic"]), frozenset())  # not compiled
    note = model_note(plan, code)
    named = {one["name"]: one["primitive"] for one in primitives_json(note) if one["op"] == "primitive_conv2d"}
    chosen = {node["name"]: node["primitive"] for node in chosen_algorithms.selection["nodes"]}
    assert named and all(chosen[name] == primitive for name, primitive in named.items())
    sizes = weight_sizes(chosen_algorithms.lowered)
    assert sizes.definition_bytes == 4 * (24 * 27 + 24 * 9 * 24 + 24 * 24 + 48 * 9 * 24)
    biases_and_others = plan_lowered(chosen_algorithms.lowered).program.constants_bytes - sizes.packed_bytes
    assert sizes.packed_bytes >= sizes.definition_bytes and 0 <= biases_and_others < 4096
    assert note["weights"] == {"definition_bytes": sizes.definition_bytes, "packed_bytes": sizes.packed_bytes}
    assert selection_sentence(note).startswith("family:direct_blocked: ")
    assert "more than as defined" in weights_sentence({"weights": {"definition_bytes": 10, "packed_bytes": 40}})


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("family", ["direct_blocked", "im2", "kn2", "fft", "winograd", "sum2d"])
def test_nothing_is_packed_before_its_stage(family: str) -> None:
    lowered = how_small("sum2d" if family == "sum2d" else f"family:{family}").lowered
    constants = lowered.graph.constants
    asked = [o.constant for step in lowered.steps for o in step.operands if o.constant is not None]
    own = {id(array) for array in constants.values()}
    assert any(node.op == "primitive_conv2d" for node in lowered.nodes)
    assert all(isinstance(each, PackedConstant) or id(each) in own for each in asked)
    memory = plan_memory(lowered)
    packed = pack_weights(memory, constants)  # refuses an array of another shape than was planned
    assert packed.nbytes == memory.constants_bytes


@pytest.mark.long
def test_specs_of_primitives_are_read_back_and_their_work_is_counted() -> None:
    for strategy in ("sum2d", "family:im2", "family:kn2", "family:fft", "family:direct_blocked"):
        lowered = how_small(strategy).lowered
        assert all(read_spec(to_json(spec)) == spec for spec in lowered.specs)
        works = step_works(plan_lowered(lowered))
        macs = sum(work.macs for work in works if work.op in ("primitive_conv2d", "conv2d"))
        assert macs == 64 * 16 * 27 + 64 * 16 * 9 * 16 + 16 * 16 * 16 + 16 * 32 * 9 * 16
        assert all(touch.bytes <= touch.span for work in works for touch in work.touches)


@pytest.mark.sample(1)
@pytest.mark.parametrize("strategy", [ENGINE, "pbqp", pytest.param("family:winograd", marks=pytest.mark.long)])
def test_weights_keep_to_a_size(strategy: str) -> None:
    graph = net(10, 32)
    free = plan_memory(how(graph, strategy, board=RK3588).lowered).constants_bytes
    with pytest.raises(MavcgError, match=r"--max-size 1000: packed weights take at least \d+ bytes") as refused:
        how(graph, strategy, 1000, RK3588)
    least = int(str(refused.value).split(" at least ")[1].split()[0])
    assert least < free  # Winograd's weights are larger than the definition's
    sizes = []
    for limit in ((free + least) // 2, least):
        chosen_algorithms = how(graph, strategy, limit, RK3588)
        sizes.append(plan_memory(chosen_algorithms.lowered).constants_bytes)
        assert sizes[-1] <= limit
    assert free > sizes[0] >= sizes[1]


@pytest.mark.parametrize(
    ("text", "size"), [("4000000", 4_000_000), ("4MB", 4_000_000), ("1.5 KiB", 1536), ("0", 0), (None, None)]
)
def test_sizes_are_read_with_their_units(text: str | None, size: int | None) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("selection", "board", "cores", "words"),
    [
        (SelectionOptions(max_size="4 potatoes"), "rk3588", (), "--max-size 4 potatoes: is not a size"),
        (SelectionOptions(max_size="-4"), "rk3588", (), "--max-size -4: is not a size"),
        (SelectionOptions(db=Path("x")), None, ("cortex-a76",), "--db: has no effect with --strategy engine"),
        (
            SelectionOptions(ENGINE, max_workspace=5),
            "rk3588",
            (),
            "--max-workspace: has no effect with --strategy engine",
        ),
        (SelectionOptions("pbqp"), None, ("cortex-a76",), "--strategy pbqp: costs belong to a board"),
    ],
)
def test_options_that_do_not_go_together(
    selection: SelectionOptions, board: str | None, cores: tuple[str, ...], words: str
) -> None:
    with pytest.raises(MavcgError, match=words):
        make_model_request(Path("m.onnx"), None, ModelOptions(board=board, cores=cores), selection)


def test_a_strategy_that_is_none_is_named() -> None:
    with pytest.raises(MavcgError, match="--strategy pbpq: unknown strategy; choose one of engine, pbqp, local"):
        how(net(), "pbpq", board=RK3588)

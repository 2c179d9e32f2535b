"""Libraries of several models and boards at once: the bytes of single builds, equal kernels compiled once, kept."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.assembly.tuning_options import Tuning
from mavcg.choose.lowering.kernel_code import kernel_modules
from mavcg.files.store import NOTHING_KEPT, EntryStore
from mavcg.lab.connections.address import read_address
from mavcg.lab.farm import build_farm as farm
from mavcg.lab.farm.build_farm import FarmResult, build_farm
from mavcg.lab.farm.library_tasks import LinkedFiles, Refusal, compile_modules, ir_module
from mavcg.lab.jobs.engine import LocalEngine
from mavcg.lab.jobs.forked_engine import ForkedEngine
from mavcg.lab.jobs.sources_digest import worker_digest
from mavcg.model.reading import file_graph
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.model.stages import plan_model
from tests.mavcg.accelerators.explore.dask_cluster import DaskCluster, cluster
from tests.mavcg.accelerators.explore.explored import KillingEngine
from tests.mavcg.lab.farm.board_requests import BOARDS, two_requests


def built_files(result: FarmResult) -> dict[str, bytes]:
    assert all(isinstance(each, LinkedFiles) for each in result.results)
    folders = [request.output.parent for request in result.requests]
    return {f"{folder.name}/{path.name}": path.read_bytes() for folder in folders for path in folder.iterdir()}


@pytest.fixture
def tiny(tiny_onnx: Path) -> Path:
    return tiny_onnx


@pytest.mark.long
def test_the_verb_builds_what_single_builds_build(mavcg: Any, tiny: Path, here: Path) -> None:
    words = ("--boards", ",".join(BOARDS), "--workers", "0", "-o", "all", "--json")
    done = mavcg("build", tiny, *words)
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)

    assert [each["board"] for each in document["libraries"]] == list(BOARDS) and document["refused"] == []
    assert document["modules"]["compiled"] == document["modules"]["distinct"] - document["modules"]["kept"]
    for board in BOARDS:
        (here / board).mkdir()
        alone = mavcg("build", tiny, "--board", board, "-o", f"{board}/libtiny.so", "--json")
        assert alone.status == 0, alone.stderr
        of_board = {path.name: path.read_bytes() for path in (here / "all" / board).iterdir()}
        assert of_board == {path.name: path.read_bytes() for path in (here / board).iterdir()}
        (library,) = [each for each in document["libraries"] if each["board"] == board]
        assert library["code_bytes"] == json.loads(alone.stdout)["code_bytes"]

    again = json.loads(mavcg("build", tiny, *words).stdout)
    assert again["modules"]["compiled"] == 0 == again["kernels"]["compiled"]


@pytest.mark.long
def test_what_an_earlier_build_kept_is_not_compiled_again(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def count(items: tuple[Any, ...]) -> tuple[Any, ...]:
        compiled.extend(item.digest for item in items)
        return compile_modules(items)

    monkeypatch.setattr(farm, "compile_modules", count)
    requests = [*two_requests(tiny, tmp_path), *two_requests(tiny, tmp_path / "again")]
    store = EntryStore(tmp_path / "kept")
    first = build_farm(requests, LocalEngine(), store)
    files = built_files(first)
    assert len(compiled) == len(set(compiled)) == first.distinct <= first.modules // 2
    garbled = tmp_path / "kept" / hashlib.sha256(compiled[0].encode()).hexdigest()
    garbled.write_bytes(garbled.read_bytes()[:-1])
    second = build_farm(requests, LocalEngine(), store)

    assert second.kept == second.distinct - 1 and compiled[first.distinct :] == [compiled[0]]
    assert built_files(second) == files


def test_a_library_that_cannot_be_built_leaves_the_others(tmp_path: Path, tiny: Path) -> None:
    onnx = pytest.importorskip("onnx")
    value = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="wide")]
    weights = [onnx.numpy_helper.from_array(np.ones((4, 4, 3, 3), np.float32), "w")]
    graph = onnx.helper.make_graph(nodes, "g", [value("x", 1, [1, 4, 8, 8])], [value("y", 1, [1, 4, 6, 6])], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), tmp_path / "conv.onnx")
    good = two_requests(tiny, tmp_path)[0]
    bad, _ = make_model_request(tmp_path / "conv.onnx", str(tmp_path / "libconv.so"), ModelOptions(board=BOARDS[0]))
    result = build_farm([replace(bad, max_size_bytes=8), good], LocalEngine(), NOTHING_KEPT)

    refusal, library = result.results
    assert isinstance(refusal, Refusal) and "--max-size 8" in refusal.reason
    assert isinstance(library, LinkedFiles) and good.output.is_file() and not (tmp_path / "libconv.so").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--boards", "rk3588,rk3588"], "rk3588 is named twice"),
        (["--boards", "rk3588,"], "has an empty name"),
        (["--boards", "nowhere"], "nowhere"),
        (["--boards", "rk3588", "--board", "rk3588"], "--board: cannot be used with --boards"),
        (["--boards", "rk3588", "--hot", "f"], "--hot: cannot be used with --boards"),
        (["--boards", "rk3588", "--workers", "many"], "is neither a number of processes"),
        (["--boards", "rk3588", "-o", "file"], "-o file: is a file"),
        (["--board", "rk3588", "--workers", "2"], "--workers 2: is only for builds with --boards"),
        (["--boards", "rk3588", "--workers", "tcp://a:1", "--db", "x.sqlite"], "--db x.sqlite"),
    ],
)
def test_bad_options_are_refused_with_a_reason(
    mavcg: Any, tiny: Path, here: Path, words: list[str], reason: str
) -> None:
    (here / "file").write_text("")
    done = mavcg("build", tiny, *words)

    assert done.status == 2 and done.stdout == "" and reason in done.stderr and len(done.stderr.splitlines()) == 1
    assert not list(here.rglob("*.so"))


def test_a_refused_model_leaves_no_folder(mavcg: Any, here: Path) -> None:
    (here / "broken.onnx").write_bytes(b"no model")
    (here / "kept").mkdir()
    done = mavcg("build", "broken.onnx", "--boards", ",".join(BOARDS), "--workers", "0", "-o", "kept/of/all")

    assert done.status == 2 and "broken.onnx" in done.stderr
    assert sorted(path.name for path in here.iterdir()) == ["broken.onnx", "kept"]
    assert not list((here / "kept").iterdir())


def test_several_models_need_boards(mavcg: Any, tiny: Path, here: Path) -> None:
    done = mavcg("build", tiny, tiny, "--board", "rk3588")
    twice = mavcg("build", tiny, tiny, "--boards", "rk3588")

    assert done.status == 2 and "several models are built only with --boards" in done.stderr
    assert twice.status == 2 and "libtiny.so: would be the library of two models" in twice.stderr


def test_modules_with_other_settings_have_other_digests(tiny: Path, tmp_path: Path) -> None:
    request = two_requests(tiny, tmp_path)[0]
    plan = plan_model(request, "tiny", lambda message: None)
    (module, *_) = kernel_modules(plan.specs, plan.machines, request.cores, request.target, plan=plan.tiles)
    tuned_again = replace(module, settings=replace(module.settings, tuning=Tuning(solver_seconds=3)))
    said = replace(module, settings=replace(module.settings, what="otherwise said"))

    assert ir_module(module).digest == ir_module(said).digest != ir_module(tuned_again).digest


@pytest.mark.long
def test_killed_workers_lose_nothing(tiny: Path, tmp_path: Path) -> None:
    alone = built_files(build_farm(two_requests(tiny, tmp_path / "one"), LocalEngine(), NOTHING_KEPT))
    with ForkedEngine(2) as engine:
        killing = KillingEngine(engine, 4)
        done = build_farm(two_requests(tiny, tmp_path / "killed"), killing, NOTHING_KEPT)

    assert killing.kills == 0 and built_files(done) == alone


@pytest.mark.long
def test_the_verb_on_a_scheduler(mavcg: Any, tiny: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scheduler and workers as a user starts them; kernels are compiled by the workers."""
    pytest.importorskip("distributed")
    words = ("build", tiny, "--boards", ",".join(BOARDS), "--json", "-o")
    alone = mavcg(*words, "alone", "--workers", "0")
    assert alone.status == 0, alone.stderr
    monkeypatch.setenv("MAVCG_CACHE", str(here / "empty"))
    with cluster((("--threads", "1"), ("--threads", "1"))) as made:
        done = mavcg(*words, "farm", "--workers", made.address)
    assert done.status == 0, done.stderr

    assert json.loads(done.stdout)["modules"]["kept"] == 0
    for board in BOARDS:
        files = {path.name: path.read_bytes() for path in (here / "farm" / board).iterdir()}
        assert files and files == {path.name: path.read_bytes() for path in (here / "alone" / board).iterdir()}


class EndingEngine(LocalEngine):
    """Kills a worker of a scheduler when the first results of each stage have come; another one is started then."""

    def __init__(self, engine: Any, made: DaskCluster) -> None:
        self.engine, self.made, self.kills = engine, made, 0

    def run(self, work: Any, items: Sequence[Any], most: int, keep: Any) -> None:
        ended = False

        def then_kill(task: Sequence[Any], results: Any) -> None:
            nonlocal ended
            keep(task, results)
            if not ended:
                ended = True
                self.made.workers[self.kills].kill()
                self.made.start_worker("--threads", "1")
                self.kills += 1

        self.engine.run(work, items, most, then_kill)


@pytest.mark.long
def test_workers_of_a_scheduler_killed_in_each_stage(tiny: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    from mavcg.lab.jobs.dask_engine import DaskEngine

    alone = built_files(build_farm(two_requests(tiny, tmp_path / "one"), LocalEngine(), NOTHING_KEPT))
    with (
        cluster((("--threads", "1"), ("--threads", "1"))) as made,
        DaskEngine(read_address(made.address, False, ""), worker_digest) as engine,
    ):
        ending = EndingEngine(engine, made)
        done = build_farm(two_requests(tiny, tmp_path / "killed"), ending, NOTHING_KEPT)

    assert ending.kills == 3 and built_files(done) == alone


def test_a_recurrent_layer_is_a_loop_as_in_a_single_build(tmp_path: Path) -> None:
    """Unrolled, its library would have other bytes."""
    onnx = pytest.importorskip("onnx")
    value, rng = onnx.helper.make_tensor_value_info, np.random.default_rng(0)
    arrays = {name: rng.standard_normal((1, 12, n)).astype(np.float32) for name, n in (("w", 3), ("r", 4))}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=4)],
        "g",
        [value("x", 1, [9, 1, 3])],
        [value("y", 1, [9, 1, 1, 4])],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)]), tmp_path / "m.onnx")
    requests = two_requests(tmp_path / "m.onnx", tmp_path)
    (one, two) = farm.library_tasks([requests[0], replace(requests[1], depth_first="on")], lambda message: None)

    assert one.request.graph is not None and two.request.graph is not None
    assert any(node.op == "loop_state" for node in one.request.graph.nodes)
    assert str(one.request.graph) == str(file_graph(requests[0], loops=True))
    assert str(two.request.graph) == str(file_graph(requests[1], loops=False))  # by rows, in no loop

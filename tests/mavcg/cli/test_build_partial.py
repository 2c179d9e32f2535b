"""`mavcg build MODEL --partial` as a user meets it: a library that ONNX Runtime loads, and the model that calls it."""

import gc
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mavcg.cli.in_process import build_in
from tests.mavcg.cli.leaks import kept_kib
from tests.mavcg.cli.other_versions import ONLY_PYTHON_3_11, run_with_version

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from tests.mavcg.cli.partial_models import ARRAYS, check_results, make_model  # noqa: E402

Session = Callable[..., Any]

# What the issue has a user write, with the library's path.
SCRIPT = """\
import numpy as np
import onnxruntime as ort

so = ort.SessionOptions()
so.register_custom_ops_library("./libm.so")
session = ort.InferenceSession("m.mavcg.onnx", so)
x, m = np.load("x.npy"), np.load("m.npy")
np.savez("y.npz", *session.run(None, {"x": x, "m": m}))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> Path:
    """A folder with m.onnx, libm.so and m.mavcg.onnx; report.json is what the build said."""
    folder = tmp_path_factory.mktemp("partial")
    make_model(folder / "m.onnx")
    options = ("--partial", "--shape", "x=1x3x16x16", "--cores", cores[1], "-o", "libm.so", "--also", "m.mavcg.onnx")
    (folder / "report.json").write_text(build_in(folder, "m.onnx", *options, "--json"))
    return folder


@pytest.fixture
def session() -> Session:
    """session(library, model, **config): a session of ONNX Runtime with one thread of its own."""

    def open_session(*libraries: Path, model: Path, **config: str) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        for key, text in config.items():
            options.add_session_config_entry(f"mavcg.{key}", text)
        for library in libraries:
            options.register_custom_ops_library(str(library))
        return onnxruntime.InferenceSession(str(model), options)

    return open_session


def test_the_report_has_what_scripts_rely_on(built: Path) -> None:
    report = json.loads((built / "report.json").read_text())

    (subgraph,) = report["subgraphs"]
    assert subgraph["nodes"] == 5 and subgraph["macs_share"] == report["macs_share"] == 1.0
    assert subgraph["macs"] == report["macs"] == 256 * (8 * 27 + 4 * 72)
    left = {entry["op"]: entry for entry in report["left"]}
    assert set(left) == {"MaxRoiPool", "NonZero", "Shape"} and all(entry["count"] == 1 for entry in left.values())
    assert left["MaxRoiPool"]["why"] == "this operator is not supported"
    assert "only a run decides the length" in left["NonZero"]["why"]


def test_the_written_model_has_one_node_for_each_subgraph(built: Path) -> None:
    model = onnx.load(built / "m.mavcg.onnx")

    ours = [node for node in model.graph.node if node.domain == "mavcg"]
    assert [node.op_type for node in ours] == ["m_0"]
    assert sorted(n.op_type for n in model.graph.node if n.domain != "mavcg") == ["MaxRoiPool", "NonZero", "Shape"]
    # The shape of an inner tensor is known: it became an initializer. Weights are in the library alone.
    assert [tensor.name for tensor in model.graph.initializer] == ["b_shape", "rois"]


def test_the_script_of_a_user_in_a_fresh_folder(built: Path, tmp_path: Path) -> None:
    for name in ("libm.so", "m.mavcg.onnx"):
        shutil.copy(built / name, tmp_path)
    for name, array in ARRAYS.items():
        np.save(tmp_path / f"{name}.npy", array)
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "y.npz") as made:
        check_results([made[name] for name in made.files], built / "m.onnx", ARRAYS)


@pytest.mark.long
def test_the_command_without_a_board_and_the_name_without_a_folder(mavcg: Any, here: Path) -> None:
    """Follow the two lines to the letter: this machine's cores, and `libm.so`, which LD_LIBRARY_PATH makes ours."""
    make_model(here / "m.onnx")
    shape = ("--shape", "x=1x3x16x16")
    done = mavcg("build", "m.onnx", "--partial", "--min-share", "5", *shape, "-o", "libm.so", "--also", "m.mavcg.onnx")
    assert done.status == 0 and "no cores are named: built for this machine (--board host)" in done.stderr, done.stderr
    for name, array in ARRAYS.items():
        np.save(here / f"{name}.npy", array)
    script = [sys.executable, "-c", SCRIPT.replace("./libm.so", "libm.so")]
    alone = subprocess.run(script, capture_output=True, text=True)
    assert alone.returncode and "invalid ELF header" in alone.stderr  # the C library's mathematics
    subprocess.run(script, check=True, env=os.environ | {"LD_LIBRARY_PATH": "."})
    expected = onnxruntime.InferenceSession("m.onnx").run(None, ARRAYS)
    with np.load("y.npz") as arrays:
        for array, reference in zip(arrays.values(), expected, strict=True):
            np.testing.assert_allclose(array, reference, rtol=1e-4, atol=1e-4)


def test_threads_of_one_session_run_at_the_same_time(built: Path, session: Session) -> None:
    shared = session(built / "libm.so", model=built / "m.mavcg.onnx", threads="2")
    want = shared.run(["y"], ARRAYS)[0]
    results: list[Any] = []

    def run() -> None:
        results.extend(shared.run(["y"], ARRAYS)[0] for _ in range(50))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(results) == 200 and all((result == want).all() for result in results)


@pytest.mark.long
def test_several_libraries_and_sessions_in_one_process(
    mavcg: Any, built: Path, session: Session, cores: tuple[str, str], here: Path
) -> None:
    make_model(here / "other.onnx", seed=7)
    options = ("--partial", "--shape", "x=2x3x16x16", "--cores", cores[1])
    assert mavcg("build", "other.onnx", *options).status == 0
    two = {"x": np.concatenate([ARRAYS["x"]] * 2), "m": ARRAYS["m"]}

    first = session(built / "libm.so", model=built / "m.mavcg.onnx")
    second = session(here / "libother.so", model=here / "other.mavcg.onnx")
    third = session(built / "libm.so", model=built / "m.mavcg.onnx")
    check_results(first.run(None, ARRAYS), built / "m.onnx", ARRAYS)
    check_results(second.run(None, two), here / "other.onnx", two)
    del first
    gc.collect()
    check_results(second.run(None, two), here / "other.onnx", two)
    check_results(third.run(None, ARRAYS), built / "m.onnx", ARRAYS)


def test_another_shape_is_an_error_of_the_run(built: Path, session: Session, tmp_path: Path) -> None:
    """A graph may leave open what the library has fixed; the session goes on after the error."""
    model = onnx.load(built / "m.mavcg.onnx")
    del model.graph.value_info[:]
    (x,) = [info for info in model.graph.input if info.name == "x"]
    x.type.tensor_type.shape.dim[0].dim_param = "N"
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "open.onnx")
    opened = session(built / "libm.so", model=tmp_path / "open.onnx")

    with pytest.raises(Exception, match=r"m_0: x has shape \[2x3x16x16\], the library was built for \[1x3x16x16\]"):
        opened.run(None, ARRAYS | {"x": np.zeros((2, 3, 16, 16), np.float32)})
    check_results(opened.run(None, ARRAYS), built / "m.onnx", ARRAYS)


def test_a_model_of_another_build_is_refused(built: Path, session: Session, tmp_path: Path) -> None:
    model = onnx.load(built / "m.mavcg.onnx")
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "fingerprint":
                attribute.s = b"0" * 32
    onnx.save(model, tmp_path / "old.onnx")

    with pytest.raises(Exception, match=r"m_0: the model was written with another build of libm\.so"):
        session(built / "libm.so", model=tmp_path / "old.onnx")


@pytest.mark.parametrize("threads", ["many", "-1", "1025", "", "12345678901234567890"])
def test_threads_that_are_no_number(built: Path, session: Session, threads: str) -> None:
    with pytest.raises(Exception, match=r"mavcg\.threads of the session options is not a number from 0 to 1024"):
        session(built / "libm.so", model=built / "m.mavcg.onnx", threads=threads)


def test_a_free_dimension_stays_with_the_runtime(mavcg: Any, here: Path, cores: tuple[str, str]) -> None:
    make_model(here / "m.onnx")
    ended = mavcg("build", "m.onnx", "--partial", "--cores", cores[1])

    assert ended.status == 2 and "no subgraph can be built" in ended.stderr and "--shape" in ended.stderr
    assert [path.name for path in here.iterdir()] == ["m.onnx"]


@pytest.mark.long
def test_subgraphs_below_the_share_stay(mavcg: Any, session: Session, here: Path, cores: tuple[str, str]) -> None:
    """A sequence between the convolutions makes two subgraphs, of 43 and 57 % of the MACs."""
    make_model(here / "n.onnx", batch=1, between=True)
    options = ("--partial", "--cores", cores[1], "--json")

    both = json.loads(mavcg("build", "n.onnx", *options).stdout)
    assert [round(each["macs_share"], 2) for each in both["subgraphs"]] == [0.57, 0.43]
    assert both["macs_share"] == 1
    check_results(session(here / "libn.so", model=here / "n.mavcg.onnx").run(None, ARRAYS), here / "n.onnx", ARRAYS)
    large = json.loads(mavcg("build", "n.onnx", *options, "--min-share", "50").stdout)
    assert [round(each["macs_share"], 2) for each in large["subgraphs"]] == [0.57]
    why = "in a subgraph with 42.86% of the MACs, below --min-share 50.00%"
    assert {"op": "Conv", "count": 1, "why": why} in large["left"]
    check_results(session(here / "libn.so", model=here / "n.mavcg.onnx").run(None, ARRAYS), here / "n.onnx", ARRAYS)


@pytest.mark.parametrize("between", [False, True])
def test_a_whole_build_that_is_refused_names_the_partial_one(
    mavcg: Any, here: Path, cores: tuple[str, str], between: bool
) -> None:
    make_model(here / "m.onnx", batch=1, between=between)
    if between:
        model = onnx.load("m.onnx")
        del model.graph.output[1:], model.graph.node[2:5]  # NonZero, which would be refused first
        onnx.save(model, "m.onnx")
    ended = mavcg("build", "m.onnx", "--cores", cores[1])

    assert ended.status == 2 and "(MaxRoiPool): this operator is not supported" in ended.stderr
    assert "; --partial builds the subgraphs without it, and leaves it to ONNX Runtime or LiteRT" in ended.stderr
    assert [path.name for path in here.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--also", "y.onnx"], "--also y.onnx: applies to a partial build; add --partial"),
        (["--min-share", "5"], "--min-share 5.0: applies to a partial build; add --partial"),
        (["--partial", "--min-share", "101"], "--min-share 101: give percent"),
        (["--partial", "--also", "m.onnx"], "--also m.onnx: is the model itself"),
        (["--partial", "--also", "m.txt"], "--also m.txt: an ONNX model is written"),
        (["--partial", "--also", "no/m.onnx"], "--also no/m.onnx: is a folder, or its folder does not exist"),
    ],
)
def test_options_that_do_not_fit(
    mavcg: Any, built: Path, here: Path, cores: tuple[str, str], options: list[str], words: str
) -> None:
    shutil.copy(built / "m.onnx", here)
    ended = mavcg("build", "m.onnx", "--cores", cores[1], *options)

    assert ended.status == 2 and words in ended.stderr
    assert [path.name for path in here.iterdir()] == ["m.onnx"]


def test_inspect_shows_each_subgraph(mavcg: Any, built: Path) -> None:
    assert "model m_0, versions: generic" in mavcg("inspect", built / "libm.so").stdout
    note = json.loads(mavcg("inspect", built / "libm.so", "--json").stdout)
    assert [subgraph["model"] for subgraph in note["subgraphs"]] == ["m_0"]


def test_a_library_of_subgraphs_is_no_library_of_a_model(mavcg: Any, built: Path) -> None:
    ended = mavcg("run", built / "libm.so", "--seed", "0", "-o", built / "y.npz")
    assert ended.status == 2 and "is not a library of a whole model" in ended.stderr
    ended = mavcg("estimate", built / "libm.so", "--board", "rk3588")
    assert ended.status == 2 and "holds subgraphs of a model (--partial)" in ended.stderr


VERSIONED = """\
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import onnxruntime as ort

so = ort.SessionOptions()
so.register_custom_ops_library("./libm.so")
session = ort.InferenceSession("m.mavcg.onnx", so, providers=["CPUExecutionProvider"])
assert ort.__version__ == sys.argv[2], ort.__version__
np.savez("y.npz", *session.run(None, {name: np.load(name + ".npy") for name in ("x", "m")}))
"""


@pytest.mark.long
@ONLY_PYTHON_3_11
@pytest.mark.parametrize("version", ["1.15.1", "1.16.3", "1.17.3", "1.20.1", "1.22.1"])
def test_versions_of_onnxruntime(built: Path, tmp_path: Path, version: str) -> None:
    """1.16 and later run the model; an earlier one gets an error that says so. Versions come from PyPI."""
    for name in ("libm.so", "m.mavcg.onnx"):
        shutil.copy(built / name, tmp_path)
    for name, array in ARRAYS.items():
        np.save(tmp_path / f"{name}.npy", array)
    done = run_with_version(version, tmp_path, VERSIONED, version)

    if version == "1.15.1":
        assert f"libm.so needs ONNX Runtime 1.16 or later; this is {version}" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "y.npz") as made:
        check_results([made[name] for name in made.files], built / "m.onnx", ARRAYS)


@pytest.mark.long
def test_a_thousand_sessions_leave_nothing_behind(built: Path, session: Session) -> None:
    def run_once() -> None:
        session(built / "libm.so", model=built / "m.mavcg.onnx").run(None, ARRAYS)

    assert kept_kib(run_once) < 8192  # 8 KiB a session would be as much

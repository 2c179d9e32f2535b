"""A partial library as a plug-in execution provider of ONNX Runtime: the unchanged model, two more lines."""

import contextlib
import gc
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mavcg.cli.leaks import kept_kib
from tests.mavcg.cli.other_versions import ONLY_PYTHON_3_11, run_with_version
from tests.mavcg.cli.partial_models import ARRAYS, build, check_results, make_model

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
if not hasattr(onnxruntime, "register_execution_provider_library"):
    pytest.skip("ONNX Runtime has no plug-in providers", allow_module_level=True)

Open = Callable[..., Any]
# What docs/drop-in.md has a user write.
SCRIPT = """\
import os
import sys

sys.path[:0] = sys.argv[1:]
import numpy as np
import onnxruntime as ort

ort.register_execution_provider_library("mavcg", os.path.abspath("libnet.so"))
options = ort.SessionOptions()
options.add_provider_for_devices([d for d in ort.get_ep_devices() if d.ep_name == "mavcg"], {})
session = ort.InferenceSession("net.onnx", options)
print(ort.__version__, session.get_providers())
np.savez("y.npz", *session.run(None, {name: np.load(name + ".npy") for name in ("x", "m")}))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> Path:
    """A folder with net.onnx, of which two subgraphs can be built, and libnet.so."""
    folder = tmp_path_factory.mktemp("provider")
    make_model(folder / "net.onnx", batch=1, between=True)
    build(folder, cores[1])
    return folder


@pytest.fixture
def provider() -> Iterator[Open]:
    """provider(library, model, **options): a session of ONNX Runtime with the library registered as its provider."""
    names: list[str] = []
    with contextlib.ExitStack() as stack:

        def open_session(library: Path, model: Path | bytes, level: int = 99, **options: str) -> Any:
            name = f"Mavcg{len(names)}"
            onnxruntime.register_execution_provider_library(name, str(library))
            stack.callback(onnxruntime.unregister_execution_provider_library, name)
            names.append(name)
            settings = onnxruntime.SessionOptions()
            settings.log_severity_level = 3
            settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel(level)
            devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]
            settings.add_provider_for_devices(devices, options)
            return onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), settings)

        yield open_session
        gc.collect()


@pytest.mark.long
def test_the_script_of_a_user_in_a_fresh_folder(built: Path, tmp_path: Path) -> None:
    for name in ("libnet.so", "net.onnx"):
        shutil.copy(built / name, tmp_path)
    for name, array in ARRAYS.items():
        np.save(tmp_path / f"{name}.npy", array)
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stderr
    assert "INFO: mavcg: libnet.so: 2 of 2 subgraphs of net.onnx" in done.stderr and "'mavcg'" in done.stdout
    with np.load(tmp_path / "y.npz") as made:
        check_results([made[name] for name in made.files], built / "net.onnx", ARRAYS)


@pytest.mark.sample(1)
@pytest.mark.parametrize("level", [0, 1, 99])
def test_whatever_onnx_runtime_makes_of_the_graph(built: Path, provider: Open, capfd: Any, level: int) -> None:
    session = provider(built / "libnet.so", built / "net.onnx", level, threads="2")

    assert "2 of 2 subgraphs" in capfd.readouterr().err
    check_results(session.run(None, ARRAYS), built / "net.onnx", ARRAYS)


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["one byte", "longer", "in memory"])
def test_another_model_stays_with_the_runtime(
    built: Path, provider: Open, tmp_path: Path, capfd: Any, how: str
) -> None:
    data = bytearray((built / "net.onnx").read_bytes())
    if how == "longer":
        data += b"\x12\x01m"  # another producer's name: the last of a field counts
    elif how == "one byte":
        weight = onnx.numpy_helper.to_array(onnx.load(built / "net.onnx").graph.initializer[1]).tobytes()
        data[data.index(weight) + 2] ^= 1
    (tmp_path / "net.onnx").write_bytes(data)
    model = bytes(data) if how == "in memory" else tmp_path / "net.onnx"
    session = provider(built / "libnet.so", model)

    assert "was built of another file than" in capfd.readouterr().err
    check_results(session.run(None, ARRAYS), tmp_path / "net.onnx", ARRAYS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threads": "many"}, "option threads of the provider is not a number from 0 to 1024"),
        ({"quiet": "yes"}, "option quiet of the provider is neither 0 nor 1"),
    ],
)
def test_options_that_do_not_fit(built: Path, provider: Open, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words):
        provider(built / "libnet.so", built / "net.onnx", **options)


def test_quiet(built: Path, provider: Open, capfd: Any) -> None:
    provider(built / "libnet.so", built / "net.onnx", quiet="1")
    assert "mavcg" not in capfd.readouterr().err


def test_two_providers_and_sessions_in_threads(built: Path, provider: Open) -> None:
    sessions = [provider(built / "libnet.so", built / "net.onnx", quiet="1") for _ in range(2)]
    want = sessions[0].run(["y"], ARRAYS)[0]
    results: list[Any] = []

    def run(session: Any) -> None:
        results.extend(session.run(["y"], ARRAYS)[0] for _ in range(30))

    threads = [threading.Thread(target=run, args=(sessions[i % 2],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 120 and all((result == want).all() for result in results)


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory, cores: tuple[str, str]) -> Path:
    """A model with a free batch, and the library of its sizes 1 and 3."""
    folder = tmp_path_factory.mktemp("sizes")
    make_model(folder / "net.onnx")
    model = onnx.load(folder / "net.onnx")
    model.graph.output.pop()  # the shape of an inner tensor, which the runtime would read of it
    del model.graph.node[4]
    onnx.external_data_helper.convert_model_to_external_data(model, location="net.weights", size_threshold=100)
    onnx.save(model, folder / "net.onnx")
    build(folder, cores[1], "--shape", "x=1,3x3x16x16")
    return folder


@pytest.mark.long
def test_a_model_with_external_data_in_several_sizes(sized: Path, provider: Open, capfd: Any) -> None:
    session = provider(sized / "libnet.so", sized / "net.onnx")
    assert "1 of 1 subgraphs" in capfd.readouterr().err
    for batch in (3, 1):
        arrays = ARRAYS | {"x": np.concatenate([ARRAYS["x"]] * batch)}
        check_results(session.run(None, arrays), sized / "net.onnx", arrays)
    with pytest.raises(Exception, match=r"x has shape \[2x3x16x16\], the library was built for \[1x3x16x16\], \["):
        session.run(None, ARRAYS | {"x": np.zeros((2, 3, 16, 16), np.float32)})


@pytest.mark.long
def test_other_external_data_are_another_model(sized: Path, provider: Open, tmp_path: Path, capfd: Any) -> None:
    for name in ("net.onnx", "net.weights"):
        shutil.copy(sized / name, tmp_path)
    weights = bytearray((tmp_path / "net.weights").read_bytes())
    weights[2] ^= 1
    (tmp_path / "net.weights").write_bytes(weights)
    provider(sized / "libnet.so", tmp_path / "net.onnx")

    assert "was built of another file than" in capfd.readouterr().err


@pytest.mark.long
def test_an_inner_tensor_that_the_runtime_reads_too(
    provider: Open, here: Path, cores: tuple[str, str], capfd: Any
) -> None:
    """With a free batch ONNX Runtime computes the shape of an inner tensor in the run: the subgraph is not one node."""
    make_model(here / "net.onnx")
    model = onnx.load("net.onnx")
    del model.graph.output[1], model.graph.node[2:4]  # of NonZero, whose input would leave the subgraph anyway
    onnx.save(model, "net.onnx")
    build(here, cores[1], "--shape", "x=1x3x16x16")
    session = provider(here / "libnet.so", here / "net.onnx")

    assert "0 of 1 subgraphs" in capfd.readouterr().err
    check_results(session.run(None, ARRAYS), here / "net.onnx", ARRAYS)


@pytest.mark.long
@ONLY_PYTHON_3_11
@pytest.mark.parametrize("version", ["1.22.1", "1.23.2", "1.24.4", "1.27.0"])
def test_versions_of_onnxruntime(built: Path, tmp_path: Path, version: str) -> None:
    """1.23 and later take the provider; 1.22 gets an error that says so. Versions come from PyPI."""
    for name in ("libnet.so", "net.onnx"):
        shutil.copy(built / name, tmp_path)
    for name, array in ARRAYS.items():
        np.save(tmp_path / f"{name}.npy", array)
    done = run_with_version(version, tmp_path, SCRIPT)

    if version == "1.22.1":
        assert "register_execution_provider_library" in done.stderr or "needs ONNX Runtime 1.23" in done.stderr
        return
    assert done.returncode == 0 and done.stdout.startswith(version), done.stderr
    assert "2 of 2 subgraphs" in done.stderr
    with np.load(tmp_path / "y.npz") as made:
        check_results([made[name] for name in made.files], built / "net.onnx", ARRAYS)


@pytest.mark.long
def test_a_thousand_sessions_leave_nothing_behind(built: Path) -> None:
    onnxruntime.register_execution_provider_library("MavcgMany", str(built / "libnet.so"))
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == "MavcgMany"]

    def run_once() -> None:
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 3
        settings.intra_op_num_threads = 1
        settings.add_provider_for_devices(devices, {"quiet": "1"})
        onnxruntime.InferenceSession(str(built / "net.onnx"), settings).run(None, ARRAYS)

    assert kept_kib(run_once) < 8192  # 8 KiB a session would be as much
    onnxruntime.unregister_execution_provider_library("MavcgMany")

"""The inputs on which errors are measured: files of a folder and random ones, and what is wrong with files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.errors import MavcgError
from mavcg.graph import Graph, TensorType
from mavcg.graph.builder import GraphBuilder
from mavcg.model.calibration import MOST_SETS, Calibration, calibration_sets, parse_calibration
from mavcg.model.precision import own_errors_words, precision_json, precision_words
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.model.stages import plan_model


def network(inputs: int = 1) -> Graph:
    b = GraphBuilder("layers")
    names = [b.input(f"x{i}", TensorType("f32", (2, 3))) for i in range(inputs)]
    return b.finish(tuple(b.add("relu", (name,)) for name in names))


def sets_of(folder: Path, inputs: int = 1) -> list[list[Any]]:
    return calibration_sets(network(inputs), parse_calibration(str(folder)))


def test_seeds_give_the_same_numbers_again() -> None:
    assert parse_calibration("seed") == parse_calibration("seed:0") == Calibration()
    first, second, other = (calibration_sets(network(), parse_calibration(f"seed:{n}"))[0][0] for n in (3, 3, 4))
    assert np.array_equal(first, second) and not np.array_equal(first, other)


def test_each_file_is_a_set_of_inputs(tmp_path: Path) -> None:
    a, b = np.full((2, 3), 2.0), np.ones((2, 3), np.float16)
    np.savez(tmp_path / "2.npz", x1=b, x0=a, more=a)
    np.savez(tmp_path / "1.npz", x0=b, x1=a)
    (tmp_path / "notes.txt").write_text("no arrays")
    found = sets_of(tmp_path, 2)
    assert [[float(array[0, 0]) for array in one] for one in found] == [[1, 2], [2, 1]]
    assert all(array.dtype == np.float32 for one in found for array in one)


def test_a_file_of_one_array_is_for_models_of_one_input(tmp_path: Path) -> None:
    for number in range(MOST_SETS + 3):
        np.save(tmp_path / f"{number:02}.npy", np.full((2, 3), number))
    assert [one[0][0, 0] for one in sets_of(tmp_path)] == list(range(MOST_SETS))
    with pytest.raises(MavcgError, match=r"00.npy: holds one array for the inputs x0, x1; give a .npz"):
        sets_of(tmp_path, 2)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 2), np.float32), r"x0: is float32\[3, 2\]; the input is f32\[2,3\]"),
        (np.zeros((2, 3), np.complex64), "x0: is complex64"),
    ],
)
def test_arrays_of_another_type_are_refused(tmp_path: Path, array: Any, message: str) -> None:
    np.savez(tmp_path / "1.npz", x0=array)
    with pytest.raises(MavcgError, match=message):
        sets_of(tmp_path)


def test_bad_folders_and_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="nowhere: is no folder; name one with .npz files of inputs, or give seed:N"):
        parse_calibration("nowhere")
    with pytest.raises(MavcgError, match=r"has no .npz or .npy files"):
        parse_calibration(str(tmp_path))
    np.savez(tmp_path / "1.npz", other=np.zeros(3))
    with pytest.raises(MavcgError, match=r"1.npz: has no array x0; name its arrays x0, as the inputs are"):
        sets_of(tmp_path)
    (tmp_path / "1.npz").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(MavcgError, match=r"1.npz: no array could be read"):
        sets_of(tmp_path)


@pytest.mark.long
def test_a_build_measures_on_the_inputs_of_the_folder(tiny_onnx: Path, tmp_path: Path) -> None:
    library = str(tmp_path / "libtiny.so")

    def document(calibrate: str | None, precision: str = "f16", limit: float | None = None) -> dict[str, Any]:
        options = ModelOptions(cores=("cortex-a76",), precision=precision, max_error=limit, calibrate=calibrate)
        request, _ = make_model_request(tiny_onnx, library, options)
        return precision_json(plan_model(request, "tiny", lambda message: None), request.precision, request.cores)

    random = document(None)
    assert (random["calibration"], random["input_sets"]) == ("seed:0", 1)
    types = inputs_of(tiny_onnx, library)
    for number, size in enumerate((1.0, 3.0)):
        save(tmp_path / f"{number}.npz", types, size)
    found = document(str(tmp_path))
    assert found["calibration"] == str(tmp_path) and found["input_sets"] == 2
    assert found["measured_error"] != random["measured_error"] and 0 < found["measured_error"] < 0.01
    assert precision_words(found).endswith(f"on 2 sets of inputs in {tmp_path}")
    assert found["layers"].keys() & found["own_errors"].keys() and max(found["own_errors"].values()) < 0.01
    assert own_errors_words(found).endswith("(is f16)")
    save(tmp_path / "2.npz", types, 1e5)  # overflows f16, so that the limit needs f32
    overflowing = document(str(tmp_path), "auto", 1e-6)
    assert "f32" in overflowing["layers"].values() and None in overflowing["own_errors"].values()


def inputs_of(model: Path, library: str) -> dict[str, TensorType]:
    request, _ = make_model_request(model, library, ModelOptions(cores=("cortex-a76",)))
    return {tensor.name: tensor.type for tensor in plan_model(request, "tiny", lambda message: None).program.inputs}


def save(path: Path, types: dict[str, TensorType], size: float) -> None:
    arrays: dict[str, Any] = {name: np.full(tensor.shape, size, np.float32) for name, tensor in types.items()}
    np.savez(path, **arrays)


def test_inputs_without_an_error_to_measure_are_refused(tiny_onnx: Path, tmp_path: Path) -> None:
    options = ModelOptions(cores=("cortex-a76",), calibrate="seed:1")
    with pytest.raises(MavcgError, match="--calibrate seed:1: no error is measured in f32; add --precision f16 or"):
        make_model_request(tiny_onnx, str(tmp_path / "libtiny.so"), options)

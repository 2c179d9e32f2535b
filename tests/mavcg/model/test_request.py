"""Options of `mavcg build MODEL` into a request: defaults, names, every bad value by its option."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mavcg.errors import MavcgError
from mavcg.model.request import (
    AUTO_THREADS,
    ModelOptions,
    identifier,
    make_model_request,
    parse_threads,
    refuse_program_options,
)
from mavcg.model.sizes import parse_shapes
from mavcg.toolchain.target import host_target


def test_a_board_gives_cores_and_target(tmp_path: Path) -> None:
    request, board = make_model_request(
        Path("m.onnx"), str(tmp_path / "libx.so"), ModelOptions(board="exynos9820", threads=3)
    )

    assert [core.name for core in request.cores] == ["cortex-a55", "cortex-a75", "exynos-m4"]
    assert (request.target.zig_name, request.threads) == ("aarch64-linux-gnu.2.17", 3)
    assert board is not None and board.name == "exynos9820"


def test_cores_give_their_target_and_are_taken_once() -> None:
    request, board = make_model_request(
        Path("m.onnx"), None, ModelOptions(cores=["cortex-a76", "generic", "cortex-a76"])
    )

    assert [core.name for core in request.cores] == ["cortex-a76"] and board is None
    assert request.target.arch == "aarch64" and request.output == Path("libm.so")
    request, _ = make_model_request(Path("m.onnx"), None, ModelOptions(cores=["generic"]))
    assert request.cores == () and request.target == host_target()
    request, _ = make_model_request(
        Path("m.onnx"), None, ModelOptions(cores=["cortex-a76"], target="aarch64-linux-musl")
    )
    assert request.target.zig_name == "aarch64-linux-musl"


def test_shapes() -> None:
    assert parse_shapes(["x=1x3x224x224", "a=b=7", "s=0"]) == {"x": (1, 3, 224, 224), "a=b": (7,), "s": (0,)}
    for bad in ("x", "=1x3", "x=", "x=1x", "x=1X3", "x=-1x3", "x=1x3 ", "x=1.5", "x=²"):
        with pytest.raises(MavcgError, match="--shape"):
            parse_shapes([bad])
    with pytest.raises(MavcgError, match="x is given twice"):
        parse_shapes(["x=1", "x=1"])


@given(st.dictionaries(st.text(min_size=1), st.lists(st.integers(0, 5000), min_size=1, max_size=6).map(tuple)))
def test_shapes_are_read_as_they_are_written(shapes: dict[str, tuple[int, ...]]) -> None:
    assert parse_shapes([f"{name}={'x'.join(map(str, dims))}" for name, dims in shapes.items()]) == shapes


@given(st.text(max_size=20))
def test_identifiers_are_c_s(text: str) -> None:
    name = identifier(text)

    assert name.isidentifier() and name.isascii()
    assert identifier(name) == name


def test_options_of_programs() -> None:
    refuse_program_options({"--hot": None, "--source": [], "--only-hot": False})
    with pytest.raises(MavcgError, match="--hot: is for programs"):
        refuse_program_options({"--source": [], "--hot": "f"})


def test_threads() -> None:
    assert [parse_threads(text) for text in (None, "1", "16", "auto")] == [1, 1, 16, AUTO_THREADS]
    for bad in ("0", "-1", "257", "Auto", "1.5", "²", ""):
        with pytest.raises(MavcgError, match="--threads"):
            parse_threads(bad)


def test_threads_that_are_predicted_need_a_board(tmp_path: Path) -> None:
    request, _ = make_model_request(
        Path("m.onnx"), str(tmp_path / "libx.so"), ModelOptions(board="exynos9820", threads=AUTO_THREADS)
    )
    assert request.threads == AUTO_THREADS and request.board is not None
    with pytest.raises(MavcgError, match="board"):
        make_model_request(Path("m.onnx"), None, ModelOptions(cores=["cortex-a76"], threads=AUTO_THREADS))

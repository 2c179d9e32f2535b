"""`mavcg run`: inputs from files or a seed, outputs into a file, and what is wrong in one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mavcg.runtime.loading import load

Array = NDArray[Any]


@pytest.fixture
def arrays(here: Path) -> tuple[Array, Array]:
    """The model's inputs, also as image.npy, other.npy and both.npz in the current folder."""
    rng = np.random.default_rng(1)
    image, other = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 4, 6, 6), (2, 3)))
    np.save(here / "image.npy", image)
    np.save(here / "other.npy", other)
    np.savez(here / "both.npz", other=other, image=image)
    return image, other


@pytest.mark.parametrize(
    "options",
    [
        ["--input", "image.npy", "--input", "other.npy"],
        ["--input", "other=other.npy", "--input", "image=image.npy"],
        ["--input", "other=other.npy", "--input", "image.npy"],
        ["--input", "both.npz"],
        ["--input", "both.npz", "--threads", "2"],
        ["--input", "both.npz", "--threads", "auto"],
    ],
)
def test_inputs_in_order_or_by_name(
    mavcg: Any, tiny_library: Path, arrays: tuple[Array, Array], here: Path, options: list[str]
) -> None:
    ended = mavcg("run", tiny_library, *options, "-o", "out.npz", "--json")
    with load(tiny_library) as model:
        wanted = model.run(*arrays)

    document = json.loads(ended.stdout)
    made = np.load(here / "out.npz")
    assert ended.status == 0 and document["written"] == "out.npz"
    for name, array, summary in zip(("y", "z"), wanted, document["outputs"], strict=True):
        assert made[name].tobytes() == array.tobytes()
        assert (summary["name"], summary["shape"], summary["dtype"]) == (name, list(array.shape), "float32")
        assert summary["max"] == array.max() == summary["top"][0] == array.reshape(-1)[summary["top_index"][0]]
        assert summary["min"] == array.min() and len(summary["top"]) == 5


def test_what_is_no_number_is_json_all_the_same(
    mavcg: Any, tiny_library: Path, arrays: tuple[Array, Array], here: Path
) -> None:
    np.save(here / "image.npy", np.full_like(arrays[0], np.nan))

    ended = mavcg("run", tiny_library, "--input", "image.npy", "--input", "other.npy", "--json")

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    first = json.loads(ended.stdout, parse_constant=refuse)["outputs"][0]
    assert first["min"] == first["max"] == first["top"][0] == "nan"


def test_a_seed_gives_the_same_again(mavcg: Any, tiny_library: Path, here: Path) -> None:
    first, again, other = (mavcg("run", tiny_library, "--seed", seed).stdout for seed in ("3", "3", "4"))

    assert first == again != other
    assert first.startswith("y float32[1, 5, 6, 6]: ") and "largest [" in first


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ["image, other", "--seed"]),
        (["--input", "image.npy"], ["other"]),
        (["--input", "missing.npy"], ["missing.npy"]),
        (["--input", "nobody=image.npy"], ["nobody", "image, other"]),
        (["--input", "image=image.npy", "--input", "image=image.npy"], ["image=image.npy"]),
        (["--input", "both.npz", "--input", "other.npy"], ["other.npy"]),
        (["--input", "text.npy", "--input", "other.npy"], ["text.npy"]),
        (["--input", "other.npy", "--input", "image.npy"], ["image", "1, 4, 6, 6"]),
        (["--input", "double.npy", "--input", "other.npy"], ["float64", "float32"]),
        (["--seed", "0", "-o", "missing/out.npz"], ["missing"]),
        (["--seed", "-1"], ["--seed -1: is not a seed; give 0 or more"]),
        (["--seed", "0", "--input", "image.npy"], ["--seed 0: makes all inputs; leave --input out"]),
        (["--seed", "0", "--threads", "5000"], ["threads"]),
        (["--seed", "0", "--threads", "few"], ["--threads=few", "auto"]),
        (["--seed", "0", "--threads=-1"], ["--threads=-1", "auto"]),
    ],
)
def test_wrong_arrays_and_files(
    mavcg: Any, tiny_library: Path, arrays: tuple[Array, Array], here: Path, options: list[str], words: list[str]
) -> None:
    (here / "text.npy").write_text("no array")
    np.save(here / "double.npy", arrays[0].astype(np.float64))
    ended = mavcg("run", tiny_library, *options)

    assert ended.status == 2 and ended.stdout == "" and len(ended.stderr.splitlines()) == 1
    for word in words:
        assert word in ended.stderr
    assert not list(here.glob("out*")) and not list(here.glob(".out*"))


def test_what_is_no_model_library(mavcg: Any, here: Path) -> None:
    (here / "text.so").write_text("no library")
    for path in ("text.so", "missing.so", "."):
        ended = mavcg("run", path, "--seed", "0")
        assert ended.status == 2 and len(ended.stderr.splitlines()) == 1, path

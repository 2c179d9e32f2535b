"""Selection for files of 8 bits as a user does it: select, tune, select by what was measured, build; the same bits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("ai_edge_litert")

import mavcg as library_api  # noqa: E402
from bench.fuzz_seeds import qdq_network, tflite_network  # noqa: E402

FILES: dict[str, Callable[[], bytes]] = {"net.onnx": qdq_network, "net.tflite": lambda: tflite_network(True)}


def json_of(mavcg: Any, *arguments: str | Path) -> Any:
    done = mavcg(*arguments, "--json")
    assert done.status == 0, done.stderr
    return json.loads(done.stdout)


def taken(selected: Any) -> dict[str, str]:
    return {node["name"]: node["primitive"] for node in selected["nodes"]}


def outputs(library: Path, seed: int = 0) -> list[bytes]:
    random = np.random.default_rng(seed)
    with library_api.load(library) as model:
        arrays = [
            random.integers(np.iinfo(t.dtype).min, np.iinfo(t.dtype).max, t.shape, endpoint=True).astype(t.dtype)
            if np.dtype(t.dtype).kind in "iu"
            else random.uniform(-2, 2, t.shape).astype(t.dtype)
            for t in model.inputs
        ]
        return [np.asarray(array).tobytes() for array in model.run(*arrays)]


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_select_tune_and_build(mavcg: Any, here: Path, name: str) -> None:
    Path(name).write_bytes(FILES[name]())
    assert set(taken(json_of(mavcg, "select", name, "--board", "host")).values()) <= {
        "qconv_implicit_hwc_hwc",
        "qconv_im2row_hwc_hwc",
        "qconv_depthwise_hwc_hwc",
    }
    json_of(mavcg, "tune", name, "--db", "costs.sqlite", "--export", "costs.json")
    measured = json_of(mavcg, "select", name, "--board", "host", "--db", "costs.sqlite")
    json_of(mavcg, "build", name, "--board", "host", "-o", "libengine.so")
    built = json_of(
        mavcg, "build", name, "--board", "host", "--strategy", "pbqp", "--db", "costs.sqlite", "-o", "libm.so"
    )
    assert taken(built["selection"]).keys() == taken(measured).keys()

    # As if im2row had been measured to be the faster one: the library takes it, and computes the same bits.
    exported = json.loads(Path("costs.json").read_text())
    changed = [cost for cost in exported["costs"] if "qconv_im2row" in json.dumps(cost)]
    assert changed
    for cost in changed:
        cost["ms"] /= 1000
    Path("changed.json").write_text(json.dumps(exported))
    json_of(mavcg, "tune", "--import", "changed.json", "--db", "changed.sqlite")
    other = json_of(
        mavcg, "build", name, "--board", "host", "--strategy", "pbqp", "--db", "changed.sqlite", "-o", "libother.so"
    )
    assert "qconv_im2row_hwc_hwc" in taken(other["selection"]).values()
    expected = outputs(Path("libengine.so"))
    assert len(set(expected[0])) > 1
    assert outputs(Path("libm.so")) == outputs(Path("libother.so")) == expected

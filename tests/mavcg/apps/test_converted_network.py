"""precision = "fp16" of a network in app.toml: it is converted, its error is measured, and others stay as they are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg import load_application
from mavcg.apps.application_file import read_application_file
from mavcg.apps.library_documents import library_json
from mavcg.apps.library_plan import plan_library
from mavcg.hardware.core import GENERIC
from mavcg.hosts.host import host_board
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.profiles.load import load_core
from mavcg.runtime.machines import cores_without_half
from tests.mavcg.apps.small_networks import NETWORKS, image, write_application

Mavcg = Callable[..., Any]


def test_a_core_without_the_arithmetic_is_named(tmp_path: Path, mavcg: Mavcg) -> None:
    pytest.importorskip("onnx")
    file = write_application(tmp_path, detector='precision = "fp16"')
    ended = mavcg("app", "build", file, "-o", tmp_path / "libapp.so", "--cores", "cortex-a53,cortex-a55")
    assert ended.status == 2 and "app.toml: line 2: network 'detector': precision = 'fp16': cortex-a53 has no" in (
        ended.stderr
    )
    assert "weights = 'f16'" in ended.stderr


@pytest.mark.long
def test_a_network_in_half_precision_takes_half_the_bytes(tmp_path: Path) -> None:
    pytest.importorskip("onnx")

    def planned(**keys: str) -> Any:
        file = write_application(tmp_path, **keys)
        request, _ = make_model_request(file, str(tmp_path / "libapp.so"), ModelOptions(cores=("cortex-a55",)))
        return plan_library(read_application_file(file), request)

    plan, whole = planned(detector='precision = "fp16"'), planned()
    before, after = ({n["name"]: n for n in library_json(each)["networks"]} for each in (whole, plan))
    assert after["tracker"] == before["tracker"] and after["tracker"]["conversion"] is None
    conversion = after["detector"]["conversion"]
    assert conversion["precision"] == "f16" and 0 < conversion["measured_error"] < 0.01
    assert 0 < conversion["layers"] <= conversion["layers_of_floats"]
    assert after["detector"]["arena_bytes"] < 0.6 * before["detector"]["arena_bytes"]
    assert after["detector"]["weight_bytes"] < 0.6 * before["detector"]["weight_bytes"]
    assert "+fullfp16" in plan.machines[GENERIC].llvm_features and plan.base_extensions
    assert "+fullfp16" not in whole.machines[GENERIC].llvm_features and not whole.base_extensions


@pytest.mark.long
@pytest.mark.parametrize(("core", "f16"), [("cortex-a55", True), ("cortex-a53", False)])
def test_mixed_has_f16_where_it_pays_and_weights_in_8_bits_elsewhere(core: str, f16: bool, tmp_path: Path) -> None:
    """On a core without arithmetic of f16 all layers have weights in 8 bits; the error is within the limit."""
    pytest.importorskip("onnx")
    file = write_application(tmp_path, recogniser='precision = "mixed"\nmax_error = 0.05')
    request, _ = make_model_request(file, str(tmp_path / "libapp.so"), ModelOptions(cores=(core,)))
    networks = {n["name"]: n for n in library_json(plan_library(read_application_file(file), request))["networks"]}
    conversion, stored = (networks["recogniser"][key] for key in ("conversion", "stored_weights"))
    assert conversion["precision"] == "f16" and (conversion["layers"] > 0) is f16
    assert stored["type"] == "i8" and len(stored["layers"]) == (0 if f16 else 2)
    assert 0 < conversion["measured_error"] == stored["measured_error"] <= 0.05
    assert networks["tracker"]["conversion"] is None is networks["tracker"]["stored_weights"]


@pytest.mark.long
def test_converted_and_other_networks_in_one_library(tmp_path: Path, mavcg: Mavcg) -> None:
    pytest.importorskip("onnx")
    cores = [load_core(cluster.core) for cluster in host_board().clusters]
    if not cores or cores_without_half(cores):
        pytest.skip("this machine's cores have no arithmetic of half precision")
    write_application(tmp_path)
    options = ("--cores", cores[0].name, "--tune", "off", "--json")
    ended = mavcg("app", "build", tmp_path / "app.toml", "-o", tmp_path / "libwhole.so", *options)
    assert ended.status == 0, ended.stderr
    file = write_application(tmp_path, detector='precision = "fp16"')
    ended = mavcg("app", "build", file, "-o", tmp_path / "libapp.so", *options)
    assert ended.status == 0, ended.stderr
    error = json.loads(ended.stdout)["networks"][0]["conversion"]["measured_error"]
    with load_application(tmp_path / "libapp.so") as app, load_application(tmp_path / "libwhole.so") as whole:
        for name in NETWORKS:
            (made,), (right,) = (each[name].run(image(name)) for each in (app, whole))
            if name == "detector":
                assert 0 < np.abs(made - right).max() < 10 * error * np.abs(right).max()
            else:
                assert made.tobytes() == right.tobytes()

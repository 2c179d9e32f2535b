"""The hardware of `mavcg accel rtl` beside both simulators, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.accelerators.image.program import AccelProgram, AccelSegment, StoredTensor
from mavcg.accelerators.isa.forms import VERSION
from mavcg.accelerators.isa.instruction import AccelInstruction, instruction
from mavcg.accelerators.rtl.cosimulation import cosimulate
from mavcg.accelerators.rtl.sizes import rtl_sizes
from mavcg.accelerators.rtl.verilog import RtlFolder, read_verilog, write_verilog
from mavcg.accelerators.simulator.cycles import simulate
from mavcg.accelerators.target import find_target
from mavcg.cli.app import run
from mavcg.errors import MavcgError
from tests.mavcg.accelerators.rtl.programs import needs_tools, program_for

SMALL = find_target("small")
LOAD, SAVE, CONV, MISC = 1, 2, 4, 16  # masks of units


def handmade(*instructions: AccelInstruction, channels: int = 1) -> AccelProgram:
    """A program of one segment with 512 bytes of features, at the begin of which lies its input of 3 x 2 pixels."""
    tensor = StoredTensor("x", 3, 2, channels, 0, 0, channels)
    segment = AccelSegment((), ("x",), (), 0)
    return AccelProgram("handmade", SMALL, instructions, b"", 512, (), (tensor,), (segment,))


@pytest.fixture(scope="module")
def rtl(tmp_path_factory: pytest.TempPathFactory) -> RtlFolder:
    needs_tools()
    folder = tmp_path_factory.mktemp("rtl") / "small"
    write_verilog(SMALL, folder)
    return read_verilog(folder)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"oc_parallel": 8}, "as many input channels as output channels"),
        ({"banks": 3, "input_bytes": 8193 * 3, "output_bytes": 3 * 8192}, "a power of two"),
        ({"ic_parallel": 4, "oc_parallel": 2}, "needs 8 or more"),
        ({"ic_parallel": 10, "oc_parallel": 5, "ddr_gb_per_s": 0.2}, "a multiple of the 4 bytes"),
    ],
)
def test_targets_without_hardware(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(MavcgError, match=fault):
        rtl_sizes(replace(SMALL, **change))


def test_hardware_exists_for_every_target_of_the_profiles() -> None:
    for name in ("small", "zu2", "zu9"):
        assert rtl_sizes(find_target(name)).word >= 4


def test_hardware_of_another_target_is_refused() -> None:
    folder = RtlFolder("", "zu2", rtl_sizes(find_target("zu2")))

    with pytest.raises(MavcgError, match="is a program for small, and --rtl has hardware of zu2"):
        cosimulate(handmade(instruction("misc.start", version=VERSION), instruction("misc.end")), folder, 0)


def test_instructions_without_hardware_are_refused() -> None:
    fields = dict.fromkeys(
        ("from", "to", "pad_top", "pad_left", "parameters", "leaky", "slope", "zero", "outside", "sums"), 0
    )
    ones = ("from_row", "from_block", "rows", "columns", "channels", "to_row", "to_block", "out_rows", "out_columns")
    window = ("kernel_rows", "kernel_columns", "stride_rows", "stride_columns", "dilation_rows", "dilation_columns")
    fields |= dict.fromkeys((*ones, *window, "out_channels"), 1) | {"lo": 0, "hi": 1, "accumulate": 0, "partial": 0}
    program = handmade(instruction("misc.start", version=VERSION), instruction("conv.transposed", **fields))

    with pytest.raises(MavcgError, match=r"instruction 1 is conv\.transposed, which the hardware does not execute"):
        cosimulate(program, RtlFolder("", "small", rtl_sizes(SMALL)), 0)


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(MavcgError, match="write the folder by mavcg accel rtl"):
        read_verilog(tmp_path)
    (tmp_path / "mavcg_core.json").write_text("{}")
    (tmp_path / "mavcg_core.v").write_text("")
    with pytest.raises(MavcgError, match="write the folder again"):
        read_verilog(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 4, 8, 9, 13, 15, 17, 19, 22, 23, 25, 27, 36, 42])
def test_random_programs(rtl: RtlFolder, seed: int) -> None:
    """Bit by bit, and within a hundredth of the simulated cycles."""
    program = program_for(SMALL, seed)
    assert program is not None

    made = cosimulate(program, rtl, seed)

    assert made.equal
    assert abs(made.cycles_rtl - made.cycles_simulated) <= 0.01 * made.cycles_simulated + 2


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 8, 13, 22])
def test_random_programs_by_ports_slower_than_the_memory(rtl: RtlFolder, seed: int) -> None:
    program = program_for(replace(SMALL, port_gb_per_s=0.025), seed)
    free = program_for(SMALL, seed)
    assert program is not None and free is not None

    made = cosimulate(program, rtl, seed)

    assert made.equal
    assert abs(made.cycles_rtl - made.cycles_simulated) <= 0.01 * made.cycles_simulated + 2
    assert made.cycles_simulated > simulate(free).cycles


@pytest.mark.long
@pytest.mark.parametrize("channels", [1, 3, 4, 5, 13])
def test_loads_are_saved_at_other_distances(rtl: RtlFolder, channels: int) -> None:
    """A map goes through feature memory; the bytes between the pixels that are written stay as they were."""
    tile = {"rows": 3, "columns": 2, "channels": channels}
    on_chip = {"_row": 2, "_block": 11}
    load = {f"to{key}": value for key, value in on_chip.items()}
    save = {f"from{key}": value for key, value in on_chip.items()}
    program = handmade(
        instruction("misc.start", version=VERSION),
        instruction("load.map", 0, SAVE, ddr=0, ddr_pixel=channels, ddr_row=2 * channels, to=5, **load, **tile),
        instruction("save.map", LOAD, MISC, ddr=100, ddr_pixel=17, ddr_row=50, **save, **{"from": 5}, **tile),
        instruction("misc.end", SAVE),
        channels=channels,
    )

    assert cosimulate(program, rtl, 0).equal


@pytest.mark.long
def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs_tools()
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'mavcg[models]'")
    weights = np.random.default_rng(0).standard_normal((6, 3, 3, 3)).astype(np.float32)
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            onnx.helper.make_node("Relu", ["c"], ["y"]),
        ],
        "net",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 8, 8])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 6, 8, 8])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    model, elf, folder = tmp_path / "net.onnx", tmp_path / "net.elf", tmp_path / "rtl"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), str(model))

    assert run(["accel", "build", str(model), "--target", "small", "-o", str(elf)]) == 0
    assert run(["accel", "rtl", "--target", "small", "-o", str(folder)]) == 0
    capsys.readouterr()
    assert run(["accel", "cosim", str(elf), "--rtl", str(folder), "--seed", "3", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)

    assert made["equal"] is True
    assert abs(made["cycles_rtl"] - made["cycles_simulated"]) <= 0.01 * made["cycles_simulated"]

"""The host side in C beside the reference: random programs on the simulated device, bit by bit."""

from pathlib import Path

import numpy as np
import pytest

from mavcg.accelerators.fixed_point import evaluate, reals_of
from mavcg.accelerators.host.runtime import DeviceProgram
from mavcg.accelerators.image.elf_file import write_elf
from mavcg.errors import MavcgError
from tests.mavcg.accelerators.compiled import random_program
from tests.mavcg.accelerators.random_networks import random_inputs


def assert_equal_to_reference(seed: int, path: Path, images: int = 1) -> bool:
    """Run a random program by the C host side; False where it does not fit its random target."""
    made = random_program(seed, images=images)
    if made is None:
        return False
    graph, target, program = made
    write_elf(program, path)
    given, nodes = random_inputs(graph, seed), graph.by_name()
    expected = evaluate(graph, given, target.rounding)
    with DeviceProgram(path) as simulated:
        outputs = simulated.run({name: reals_of(nodes[name], array) for name, array in given.items()})
    assert set(outputs) == set(graph.outputs)
    for name, values in outputs.items():
        assert np.array_equal(values, reals_of(nodes[name], expected[name])), f"seed {seed}, {name}"
    return True


def test_random_programs_agree_with_the_reference(tmp_path: Path) -> None:
    assert sum(assert_equal_to_reference(seed, tmp_path / "p.elf") for seed in range(8)) > 5


def test_random_programs_of_batches_agree_with_the_reference(tmp_path: Path) -> None:
    assert sum(assert_equal_to_reference(seed, tmp_path / "p.elf", images=2 + seed % 3) for seed in range(8, 12)) > 2


@pytest.mark.long
def test_many_random_programs(tmp_path: Path) -> None:
    assert sum(assert_equal_to_reference(seed, tmp_path / "p.elf") for seed in range(1000)) > 800


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    (tmp_path / "no.elf").write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(MavcgError, match=r"no\.elf: no program of mavcg accel build, or damaged"):
        DeviceProgram(tmp_path / "no.elf")
    with pytest.raises(MavcgError, match="cannot be opened"):
        DeviceProgram(tmp_path / "lost.elf")
    assert assert_equal_to_reference(3, tmp_path / "p.elf")
    with DeviceProgram(tmp_path / "p.elf") as simulated:
        with pytest.raises(MavcgError, match="input x: not given"):
            simulated.run({})
        with pytest.raises(MavcgError, match=r"input x: is \[1\]; give \["):
            simulated.run({"x": np.zeros(1, np.float32)})

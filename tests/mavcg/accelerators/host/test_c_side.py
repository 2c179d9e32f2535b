"""The accelerator's host side in C under sanitizers: faults of devices and files, and the example's program."""

import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mavcg.accelerators.host.library import write_host_sources
from mavcg.accelerators.host.runtime import DeviceProgram
from mavcg.accelerators.image.elf_file import write_elf
from mavcg.accelerators.isa.forms import FORMS
from mavcg.cli.app import run
from mavcg.errors import MavcgError
from mavcg.toolchain.zig import run_zig
from tests.mavcg.accelerators.compiled import random_program

CODE = Path(__file__).parent
EXAMPLE = CODE.parents[3] / "examples" / "accel_host" / "main.c"
ASAN = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def program_file(path: Path, seed: int = 3) -> Path:
    """A program of a small random network."""
    made = random_program(seed)
    assert made is not None
    write_elf(made[2], path)
    return path


def segmented_file(path: Path) -> Path:
    """A program of three segments whose CPU parts have nothing to do."""
    made = random_program(23, mixed=True)
    assert made is not None and len(made[2].segments) == 3
    host = made[2].host
    idle = replace(host, cpu=tuple(replace(part, outputs=()) for part in host.cpu))
    write_elf(replace(made[2], host=idle), path)
    return path


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("accel-host")
    made = folder / "host"
    files = [str(file) for file in write_host_sources(folder) if file.suffix == ".c"]
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", *ASAN, f"-I{folder}"]
    subprocess.run([*command, str(CODE / "host.c"), *files, "-ldl", "-lm", "-o", str(made)], check=True)
    return made


def test_forms_that_the_c_reads_by_the_same_names_have_the_same_layout() -> None:
    dense, depthwise, transposed = (FORMS[f"conv.{mode}"] for mode in ("dense", "depthwise", "transposed"))
    assert dense.fields == depthwise.fields == transposed.fields  # compute.c has one set of names for all three
    map_words = [(word, bit) for _, word, bit in FORMS["load.map"].places]
    assert map_words == [(word, bit) for _, word, bit in FORMS["save.map"].places]  # and memories.c for both maps


def test_each_file_compiles_alone(tmp_path: Path) -> None:
    for file in write_host_sources(tmp_path):
        command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
        done = subprocess.run([*command, str(file)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_the_c_compiles_for_macos(tmp_path: Path) -> None:
    """Simulated programs run there too: the C needs nothing of Linux."""
    files = [str(file) for file in write_host_sources(tmp_path) if file.suffix == ".c"]
    command = ["-target", "aarch64-macos", "-std=c11", "-D_GNU_SOURCE", "-shared", "-Wall", "-Wextra", "-Werror"]
    run_zig("cc", [*command, *files, "-o", str(tmp_path / "host.dylib")], "compiling the host side for macOS")


@pytest.mark.parametrize("make", [program_file, segmented_file])
def test_devices_that_fail(driver: Path, tmp_path: Path, make: Callable[[Path], Path]) -> None:
    done = subprocess.run([driver, "faults", make(tmp_path / "p.elf")], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (0, "as expected\n"), done.stderr


def test_a_program_without_the_libraries_of_its_cpu_parts_is_refused(tmp_path: Path) -> None:
    made = random_program(23, mixed=True)
    assert made is not None
    write_elf(made[2], tmp_path / "p.elf")

    with pytest.raises(MavcgError, match="no library was built for its CPU parts; build it with --board or --cores"):
        DeviceProgram(tmp_path / "p.elf")


def mutated(content: bytes, chance: random.Random) -> bytes:
    """A file with a few bits, bytes or words changed, or cut."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(changed))
        kind = chance.randrange(4)
        if kind == 0:
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            changed[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            changed[at : at + 4] = chance.choice((0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 1 << 20)).to_bytes(4, "little")
        else:
            del changed[at + 1 :]
    return bytes(changed)


def assert_mutants_end_cleanly(driver: Path, folder: Path, count: int, program: Path) -> list[int]:
    """Statuses of mutated files; fails where the driver crashes, or a sanitizer finds something."""
    content, chance, statuses = program.read_bytes(), random.Random(0), []
    for first in range(0, count, 50):
        names = []
        for number in range(first, min(first + 50, count)):
            names.append(folder / f"{number}.elf")
            names[-1].write_bytes(mutated(content, chance))
        done = subprocess.run([driver, "files", *names], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
        statuses += [int(line.split()[0]) for line in done.stdout.splitlines()]
        for name in names:
            name.unlink()
    assert len(statuses) == count
    return statuses


def test_damaged_files_end_with_a_status(driver: Path, tmp_path: Path) -> None:
    statuses = assert_mutants_end_cleanly(driver, tmp_path, 100, program_file(tmp_path / "p.elf", 11))

    assert {0, -1, -5} <= set(statuses)  # still right, no program any more, stopped at an instruction


@pytest.mark.long
def test_ten_thousand_damaged_files(driver: Path, tmp_path: Path) -> None:
    assert_mutants_end_cleanly(driver, tmp_path, 5_000, program_file(tmp_path / "p.elf", 11))
    assert_mutants_end_cleanly(driver, tmp_path, 5_000, segmented_file(tmp_path / "s.elf"))


def test_the_example_as_its_first_lines_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("cc"):
        pytest.skip("cc is not installed")
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(EXAMPLE, "main.c")
    program_file(tmp_path / "net.elf")
    assert run(["accel", "host", "-o", "host"]) == 0
    subprocess.run("cc -O1 -D_GNU_SOURCE -Ihost main.c host/[a-z]*.c -ldl -lm -o classify", shell=True, check=True)

    with DeviceProgram(tmp_path / "net.elf") as simulated:
        numbers = np.random.default_rng(0)
        inputs = {name: numbers.standard_normal(shape).astype(np.float32) for name, shape in simulated.inputs.items()}
        outputs = simulated.run(inputs)
    for number, array in enumerate(inputs.values()):
        array.tofile(f"{number}.f32")
    files = [f"{number}.f32" for number in range(len(inputs))]
    done = subprocess.run(["./classify", "net.elf", *files], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    for line, (name, values) in zip(done.stdout.splitlines(), outputs.items(), strict=True):
        first = line.split()[1]
        assert line.startswith(f"{name}:")
        assert np.float32(first.split("=")[1]) == pytest.approx(values.max(), rel=1e-4)
        assert values.reshape(-1)[int(first.split("=")[0])] == values.max()

"""Applications of three networks in one library each: in Python, in C, and on the emulated cores of a board.

Hand landmarks, SqueezeNet and MobileNet v2 in 8 bits, the last one as a pipeline; a face detector, face landmarks and
MobileNet v2, the last one by parts of rows, since the limit asks for it.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg
from mavcg import load as mavcg_load
from mavcg.errors import MavcgError
from mavcg.objects.elf import notes
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig
from tests.machine import MIDRS, QEMU, SYSROOT, needs_qemu_and_libc

HERE = Path(__file__).parent
EXACT = ("--max-error", "0")
Mavcg = Callable[..., Any]


@dataclass(frozen=True)
class Trained:
    """An application: names of bench.models by network; share: of the buffers of separate libraries, which the
    application's keep beside the weights; board_limit: bytes of weights, as they are packed for a board, and buffers;
    keys: of app.toml, by network."""

    files: dict[str, str]
    share: float
    board_limit: int
    keys: dict[str, str]

    @property
    def pipelines(self) -> int:
        """Number of networks that are pipelines."""
        return sum("partitions" in keys for keys in self.keys.values())

    def write(self, folder: Path, limit: int) -> Path:
        """Write app.toml; skip where a model cannot be had."""
        from bench.models import model_path

        tables = []
        for name, model in self.files.items():
            try:
                path = model_path(model)
            except MavcgError as error:
                pytest.skip(str(error))
            tables.append(f'[[network]]\nname = "{name}"\nfile = "{path}"\n{self.keys.get(name, "")}')
        (folder / "app.toml").write_text(f'memory = "{limit} B"\n' + "\n".join(tables))
        return folder / "app.toml"


HANDS = Trained(
    {"hand": "hand_landmark", "squeezenet": "squeezenet-random", "mobilenet": "mobilenet_v2-int8"},
    0.6,
    31_000_000,
    {"mobilenet": "precision = 'int8'\npartitions = 'auto:2'\n"},
)
FACES = Trained(
    {"blazeface": "blazeface", "landmark": "face_landmark", "mobilenet": "mobilenet_v2"}, 0.35, 19_000_000, {}
)


def inputs_of(model: Any) -> tuple[Any, ...]:
    """Images in the range that each network takes."""
    rng = np.random.default_rng(0)
    return tuple(rng.random(tensor.shape).astype(tensor.dtype) for tensor in model.inputs)


def write_inputs(library: Path, folder: Path) -> None:
    with mavcg.load_application(library) as app:
        for name in app.networks:
            (folder / f"{name}.in").write_bytes(b"".join(x.tobytes() for x in inputs_of(app[name])))


def compile_program(folder: Path, target: str) -> Path:
    program = folder / "use_networks"
    flags = ["-target", target, *PLAIN_CODE_FLAGS, "-Wall", "-Wextra", "-Werror", f"-I{folder}"]
    run_zig("cc", [*flags, str(HERE / "use_networks.c"), f"-L{folder}", "-lapp", "-o", str(program)], "compiling")
    return program


@pytest.fixture(scope="module", params=[HANDS, FACES], ids=["hands", "faces"])
def trained(request: pytest.FixtureRequest) -> Trained:
    made: Trained = request.param
    return made


@pytest.fixture(scope="module")
def built(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libapp.so for this machine, with its report, and a library of each network beside it; algorithms without error,
    so that parts of rows have the bits of layer by layer."""
    from bench.models import model_path
    from mavcg.cli.app import run

    folder = tmp_path_factory.mktemp("trained")
    host = ("--board", "host", *EXACT)
    trained.write(folder, 1 << 30)
    for name, model in trained.files.items():
        assert run(["build", str(model_path(model)), "-o", str(folder / f"lib{name}.so"), *host]) == 0
    file = trained.write(folder, limit_of(trained, folder))
    assert run(["app", "build", str(file), "-o", str(folder / "libapp.so"), *host]) == 0
    return folder


def limit_of(trained: Trained, folder: Path) -> int:
    """Bytes for the weights, whose packing depends on this machine, and a part of the separate libraries' buffers."""
    weights = arenas = 0
    for name in trained.files:
        [note] = notes(folder / f"lib{name}.so")
        weights, arenas = weights + note["weight_bytes"], arenas + note["arena_bytes"]
    return int(weights + trained.share * arenas)


@pytest.mark.long
def test_one_memory_keeps_a_limit_that_separate_libraries_miss(built: Path, trained: Trained, mavcg: Mavcg) -> None:
    ended = mavcg("inspect", built / "libapp.so", "--json")
    assert ended.status == 0, ended.stderr
    note = json.loads(ended.stdout)
    separate = sum(
        json.loads(mavcg("inspect", built / f"lib{name}.so", "--json").stdout)["arena_bytes"] for name in trained.files
    )
    assert note["weight_bytes"] + note["arena_bytes"] <= limit_of(trained, built) < note["weight_bytes"] + separate
    assert (
        sum(len(network.get("pipeline", {}).get("stages", ())) == 2 for network in note["networks"])
        == trained.pipelines
    )
    if not trained.pipelines:  # by parts of rows
        assert note["networks"][2]["phases"] > 2 * len(note["networks"][2]["steps"])


@pytest.mark.long
def test_in_python_with_the_bits_of_separate_libraries(built: Path, trained: Trained) -> None:
    with mavcg.load_application(built / "libapp.so", threads=2) as app:
        for name in (*trained.files, *trained.files):
            arrays = inputs_of(app[name])
            with mavcg.load(built / f"lib{name}.so") as model:
                right = [y.tobytes() for y in model.run(*arrays)]
            assert [y.tobytes() for y in app[name].run(*arrays)] == right
            if app.stages(name):
                for outputs in app.pipeline(name).map([arrays] * 5):
                    assert [y.tobytes() for y in outputs] == right


@pytest.mark.long
def test_in_c(built: Path, trained: Trained) -> None:
    write_inputs(built / "libapp.so", built)
    program = compile_program(built, host_target().zig_name)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(built)}
    done = subprocess.run([program, "2"], cwd=built, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, f"done, {trained.pipelines} pipelines\n"), done.stderr
    for name in trained.files:
        with mavcg.load(built / f"lib{name}.so") as model:
            right = b"".join(y.tobytes() for y in model.run(*inputs_of(model)))
        assert (built / f"{name}.out").read_bytes() == right


@pytest.mark.long
@needs_qemu_and_libc
def test_on_the_cores_of_a_board(built: Path, trained: Trained, tmp_path: Path, mavcg: Mavcg) -> None:
    """The same bits on each core type, near those of this machine."""
    file = trained.write(tmp_path, trained.board_limit)
    options = ("--tune", "off", "--max-seconds", "3600", *EXACT)  # results are the same with machine passes and without
    ended = mavcg("app", "build", file, "--board", "exynos9820", "-o", tmp_path / "libapp.so", "--json", *options)
    assert ended.status == 0, ended.stderr
    if trained.pipelines:
        stages = json.loads(ended.stdout)["networks"][2]["pipeline"]["stages"]
        assert len({stage["cores"][0] for stage in stages}) == 2
    write_inputs(built / "libapp.so", tmp_path)
    program = compile_program(tmp_path, "aarch64-linux-gnu.2.36")
    results = set()
    for core, midr in MIDRS.items():
        assert QEMU and shutil.which(QEMU)
        command = [QEMU, "-cpu", f"max,midr={midr:#x}", "-L", str(SYSROOT), "-E", f"LD_LIBRARY_PATH={tmp_path}"]
        done = subprocess.run([*command, str(program), "2"], cwd=tmp_path, capture_output=True, text=True, timeout=1800)
        assert (done.returncode, done.stdout) == (0, f"done, {trained.pipelines} pipelines\n"), f"{core}: {done.stderr}"
        results.add(tuple((tmp_path / f"{name}.out").read_bytes() for name in trained.files))
    assert len(results) == 1
    for name, made in zip(trained.files, results.pop(), strict=True):
        with mavcg_load(built / f"lib{name}.so") as model:
            arrays = model.run(*inputs_of(model))
        right = np.concatenate([y.reshape(-1) for y in arrays]).astype(np.float64)
        own = np.frombuffer(made, arrays[0].dtype).astype(np.float64)
        assert float(np.abs(own - right).max()) <= 1e-3 * max(1.0, float(np.abs(right).max()))

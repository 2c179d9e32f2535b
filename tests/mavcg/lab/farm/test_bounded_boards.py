"""`mavcg build MODEL --boards A,B --shape x=1x1..160x24`: a library of any length for each board."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mavcg.lab.farm import build_farm as farm
from mavcg.lab.farm.build_farm import library_tasks
from mavcg.lab.farm.library_tasks import LibraryTask
from mavcg.lab.jobs.messages import Message, pack_message
from mavcg.model.reading import read_sampled_graphs
from mavcg.model.request import ModelOptions, make_model_request
from mavcg.profiles.load import load_board
from mavcg.toolchain.zig import run_zig
from tests.machine import QEMU, SYSROOT, needs_qemu_and_libc

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from tests.mavcg.choose.lengths.bounded_models import Tokens  # noqa: E402

BOARDS = ("rk3588", "raspberry-pi-4")
WIDTH, MOST = 24, 160
LENGTHS = (MOST, 1, 7, 2, 64)
SHAPE = ("--shape", f"x=1x1..{MOST}x{WIDTH}")


def tokens_model(path: Path) -> Path:
    net = Tokens(WIDTH)
    net.linear(48)
    net.norm()
    net.attention()
    net.above_mean()
    return net.save(path)


def test_the_file_is_read_once_for_all_boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks for workers have the graphs of all sampled lengths, which survive a message."""
    reads: list[str] = []

    def count(*arguments: Any) -> Any:
        reads.append(arguments[2])
        return read_sampled_graphs(*arguments)

    monkeypatch.setattr(farm, "read_sampled_graphs", count)
    net = Tokens(WIDTH)
    net.linear(8)
    model = net.save(tmp_path / "net.onnx")
    options = ModelOptions(shapes=SHAPE[1:], bounded=True)
    requests = []
    for board in BOARDS:
        (tmp_path / board).mkdir()
        output = str(tmp_path / board / "libnet.so")
        requests.append(make_model_request(model, output, ModelOptions(**(vars(options) | {"board": board})))[0])
    tasks = library_tasks(requests, lambda message: None)

    assert reads == ["net"]
    (received,) = Message(pack_message((tasks[1],))).value(tuple[LibraryTask, ...])
    sent, came = tasks[1].request.sampled, received.request.sampled
    assert received.request.graph is None and sent is not None
    assert (came.dimensions, came.samples, came.axes) == (sent.dimensions, sent.samples, sent.axes)
    assert [str(graph) for graph in came.graphs] == [str(graph) for graph in sent.graphs]


@pytest.mark.long
@needs_qemu_and_libc
def test_every_length_on_every_core_of_both_boards(mavcg: Any, here: Path) -> None:
    """The bytes of single builds, and the same bits on all emulated cores, near to onnxruntime's."""
    tokens_model(here / "net.onnx")
    done = mavcg("build", "net.onnx", "--boards", ",".join(BOARDS), *SHAPE, "--workers", "0", "-o", "all", "--json")
    assert done.status == 0, done.stderr
    libraries = json.loads(done.stdout)["libraries"]
    assert [each["dimensions"] for each in libraries] == [{"tokens": [1, MOST]}] * 2
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, length, WIDTH)).astype(np.float32) for length in LENGTHS]
    (here / "in").write_bytes(b"".join(x.tobytes() for x in arrays))
    results = {}
    for board in BOARDS:
        folder = here / "all" / board
        (here / board).mkdir()
        alone = mavcg("build", "net.onnx", "--board", board, *SHAPE, "-o", f"{board}/libnet.so")
        assert alone.status == 0, alone.stderr
        names = sorted(path.name for path in folder.iterdir())
        assert names == sorted(path.name for path in (here / board).iterdir())
        assert all((folder / name).read_bytes() == (here / board / name).read_bytes() for name in names)
        words = ["-target", "aarch64-linux-gnu.2.36", "-O1", "-fno-sanitize=all", f"-I{folder}"]
        source = str(Path(__file__).with_name("lengths.c"))
        run_zig("cc", [*words, source, str(folder / "libnet.so"), f"-Wl,-rpath,{folder}", "-o", "run"], "compiling")
        for core in ("generic", *load_board(board).cores):
            command = [str(QEMU), "-cpu", "max", "-L", str(SYSROOT), "./run", "in", "out", *map(str, LENGTHS)]
            env = {**os.environ, "MAVCG_CPU_MAP": f"0-1023={core}", "MAVCG_TRACE": "1"}
            ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
            assert ran.returncode == 0 and f" {core} " in ran.stderr, ran.stderr
            results[board, core] = (here / "out").read_bytes()
    assert len(results) == 5 and len(set(results.values())) == 1  # two cores, one core, generic twice
    have = np.frombuffer(next(iter(results.values())), np.float32)
    reference = onnxruntime.InferenceSession("net.onnx")
    want = np.concatenate([reference.run(None, {"x": x})[0].reshape(-1) for x in arrays])
    assert np.abs(have - want).max() <= 1e-4 * np.abs(want).max()


def test_a_list_of_lengths_is_refused(mavcg: Any, here: Path) -> None:
    """It is several sizes, each with a library of its own kernels."""
    Tokens(WIDTH).save(here / "net.onnx")
    done = mavcg("build", "net.onnx", "--boards", ",".join(BOARDS), "--shape", f"x=1x1,4x{WIDTH}")
    assert done.status == 2 and "names 2 sizes; only `mavcg build MODEL` takes several" in done.stderr

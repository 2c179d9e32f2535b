"""Workers: what they say, who takes turns, what their traces mean."""

import io
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bench.peers
from bench.interleaved import Worker, process_medians, read_answer, round_medians, start
from bench.peers import NETWORKS, difference, differences, model_name, outputs_of
from bench.runners import Runner, onnxruntime_layers
from bench.worker import seeded_inputs, serve, timed
from mavcg.errors import MavcgError


class Writer(Worker):
    """Writes one array where a request's second word says, or refuses."""

    def __init__(self, runtime: str, fails: bool = False) -> None:
        self.runtime, self.fails = runtime, fails

    def ask(self, request: str) -> dict[str, Any]:
        word, path = request.split()
        assert word == "out"
        if self.fails:
            raise RuntimeError("no such model")
        np.savez(path, np.full((2, 3), len(self.runtime), np.float32))
        return {}


def test_outputs_of_workers_whose_names_have_spaces() -> None:
    reasons: dict[str, str] = {}
    outputs = outputs_of([Writer("1.2 MB"), Writer("layers"), Writer("0.65 MB", fails=True)], reasons)

    assert set(outputs) == {"1.2 MB", "layers"} and reasons == {"0.65 MB": "no such model"}
    assert outputs["1.2 MB"][0].tolist() == [6.0] * 6


def test_answers_among_other_lines() -> None:
    stream = io.StringIO('The device supports: fp16:0\n{"ok": true, "version": "1"}\n{"ok": false, "error": "no"}\n')

    assert read_answer(stream)["version"] == "1"
    with pytest.raises(RuntimeError, match="no"):
        read_answer(stream)
    with pytest.raises(RuntimeError, match="without an answer"):
        read_answer(stream)


class Asked(Worker):
    """Notes who is asked, and answers as if each run took as many ms as its name has letters, plus the turn."""

    log: list[str] = []

    def __init__(self, runtime: str, threads: int = 1) -> None:
        self.runtime, self.threads = runtime, threads
        self.cpus: list[set[int]] = []

    def bind(self, cpus: Collection[int]) -> None:
        self.cpus.append(set(cpus))

    def ask(self, line: str) -> dict[str, Any]:
        self.log.append(self.runtime)
        return {"ms": [1.0, len(self.runtime), 99.0], "cpu_ms": [7.0]}


def test_every_round_begins_with_another_one() -> None:
    Asked.log = []
    medians = round_medians([Asked("ab"), Asked("abc"), Asked("abcd")], 4)

    assert Asked.log == ["ab", "abc", "abcd", "abc", "abcd", "ab", "abcd", "ab", "abc", "ab", "abc", "abcd"]
    assert medians == {"ab": [2.0] * 4, "abc": [3.0] * 4, "abcd": [4.0] * 4}
    assert round_medians([Asked("ab")], 1, "cpu_ms") == {"ab": [7.0]}


def test_processes_of_one_library_take_turns_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    Asked.log, ended, most = [], list[str](), [3]

    def started(runtime: str, model: Path, threads: int) -> Asked:
        if not most[0]:
            raise RuntimeError("no memory")
        most[0] -= 1
        return Asked(runtime, threads)

    monkeypatch.setattr("bench.interleaved.start", started)
    monkeypatch.setattr(Asked, "end", lambda self: ended.append(self.runtime))

    assert process_medians(Path("lib.so"), 2, 3, 2) == [float(len("process 0"))] * 3
    assert Asked.log == [f"process {n}" for n in (0, 1, 2, 1, 2, 0)]
    assert ended == [f"process {n}" for n in range(3)]
    most[0] = 2
    with pytest.raises(RuntimeError, match="no memory"):
        process_medians(Path("lib.so"), 2, 3, 2)
    assert ended[3:] == ["process 0", "process 1"]  # none is left behind


def test_one_thread_has_one_cpu_in_a_round_and_the_next_one_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {5, 2})
    one, other, two_threads = Asked("a"), Asked("b"), Asked("c", 2)
    round_medians([one, other, two_threads], 3)

    assert one.cpus == other.cpus == [{2}, {5}, {2}]
    assert two_threads.cpus == []


def test_all_threads_of_a_process_are_bound() -> None:
    program = (
        "import threading; go = threading.Event(); t = threading.Thread(target=go.wait, daemon=True); t.start(); "
        "print(t.native_id, flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    thread, cpu = int(process.stdout.readline()), max(os.sched_getaffinity(0))
    worker = Worker("a", process)
    try:
        worker.bind({cpu})
        assert os.sched_getaffinity(thread) == os.sched_getaffinity(process.pid) == {cpu}
        with pytest.raises(OSError):
            worker.bind({max(os.sched_getaffinity(0)) + 512})
    finally:
        worker.end()


def test_a_worker_that_cannot_load_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="nothing.onnx"):
        start("onnxruntime", tmp_path / "nothing.onnx", 1, sys.executable)


def runner(channels_last: bool = False) -> Runner:
    shape = (1, 4, 5, 3) if channels_last else (1, 3, 4, 5)
    inputs = [(shape, np.dtype("f4"))]
    return Runner("1", inputs, ["y"], lambda arrays: [arrays[0] * 2], channels_last)


def test_everybody_has_the_same_image() -> None:
    (first,), (last,) = seeded_inputs(runner()), seeded_inputs(runner(True))

    assert last.shape == (1, 4, 5, 3)
    assert last.flags.c_contiguous
    np.testing.assert_array_equal(first, last.transpose(0, 3, 1, 2))


def test_requests(tmp_path: Path) -> None:
    times = timed(runner(), seeded_inputs(runner()), 0, 3, 0.0)
    assert len(times["ms"]) >= 3
    assert len(times["cpu_ms"]) == len(times["ms"]) + times["switches"] or times["switches"] > 12
    assert serve(runner(), f"out {tmp_path / 'y.npz'}") == {"ok": True}
    with np.load(tmp_path / "y.npz") as file:
        np.testing.assert_array_equal(file["y"], seeded_inputs(runner())[0] * 2)
    with pytest.raises(ValueError, match="does not say"):
        serve(runner(), "layers 3")
    with pytest.raises(ValueError, match="is neither"):
        serve(runner(), "run 1")


def test_onnxruntimes_trace() -> None:
    def event(name: str, us: int, cat: str = "Node") -> dict[str, Any]:
        return {"cat": cat, "name": name, "dur": us, "args": {"op_name": "Conv"}}

    found = onnxruntime_layers(
        [
            event("model_run", 9000, "Session"),
            event("b_kernel_time", 3000),
            event("a_kernel_time", 500),
            event("a_fence_before", 1),
            event("b_kernel_time", 2000),
            event("a_kernel_time", 600),
        ]
    )

    assert found == [{"name": "b", "op": "Conv", "ms": 2.0}, {"name": "a", "op": "Conv", "ms": 0.5}]


def test_names_of_networks() -> None:
    assert model_name("squeezenet") == "squeezenet-random"
    assert model_name("mobilenet_v2-int8") in NETWORKS
    assert model_name("densenet121-random") == "densenet121-random"
    assert model_name("mobilenet_v2-int8-tflite") == "mobilenet_v2-int8-tflite"
    with pytest.raises(MavcgError, match="squeezenut: there is none"):
        model_name("squeezenut")


def test_outputs_are_compared_with_onnxruntime_or_of_tflite_files_litert(monkeypatch: pytest.MonkeyPatch) -> None:
    right, other = [np.array([1.0, -4.0], np.float32)], [np.array([1.0, -3.0], np.float32)]
    outputs = {"mavcg": right, "openvino": other, "litert": right}
    monkeypatch.setattr(bench.peers, "outputs_of", lambda workers, reasons: outputs)

    assert differences([], {}) == {"mavcg": 0.0, "openvino": 0.25, "litert": 0.0}
    outputs["onnxruntime"] = other
    assert differences([], {}) == {
        "mavcg": pytest.approx(1 / 3),
        "openvino": 0,
        "litert": pytest.approx(1 / 3),
        "onnxruntime": 0,
    }


def test_differences() -> None:
    a, b = np.array([1.0, -4.0], np.float32), np.array([1.0, -3.0], np.float32)

    assert difference([a], [b]) == pytest.approx(1 / 3)
    assert difference([a, a], [a, b]) == pytest.approx(1 / 3)
    assert difference([a], [a[:1]]) == float("inf")
    assert difference([a], [a, a]) == float("inf")
    assert difference([np.array([np.nan, 1.0])], [np.array([1.0, 1.0])]) == float("inf")

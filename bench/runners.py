"""One interface to all runtimes, for bench/worker.py: a loaded model, its inputs, and a call that runs it.

Every runtime computes in f32 if the model does, with the requested number of threads, and through the part of its
Python interface that copies least. The packages of bench/peers-requirements.txt are imported only when they are used.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
Array = NDArray[Any]
KEPT = 3  # libraries of one model, of the last states of mavcg: they hold its weights


@dataclass(frozen=True)
class Runner:
    """A loaded model.

    inputs: (shape, dtype) of each. run: from arrays to arrays, in the order of `outputs`. channels_last: True if images
    are N, H, W, C here, although N, C, H, W in the model that this was converted from. layers: runs the model so many
    times and returns each layer's least time; None if the runtime does not report layers.
    """

    version: str
    inputs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]
    outputs: Sequence[str]
    run: Callable[[Sequence[Array]], Sequence[Array]]
    channels_last: bool = False
    layers: Callable[[Sequence[Array], int], list[dict[str, Any]]] | None = None


def mavcg_runner(model: Path, threads: int, profile: bool = False) -> Runner:
    """Return the runner of a given library of mavcg, or of a model, built for this machine and cached."""
    if str(ROOT) not in sys.path:  # a worker is a script, which finds only what lies beside it
        sys.path.insert(0, str(ROOT))
    import mavcg
    from mavcg.runtime.timed_runs import profile_after_run

    loaded = mavcg.load(model if model.suffix == ".so" else built_library(model), threads=threads)
    inputs = [(tuple(t.shape), np.dtype(t.dtype)) for t in loaded.inputs]

    def layers(arrays: Sequence[Array], runs: int) -> list[dict[str, Any]]:
        steps_of_runs = zip(*(profile_after_run(loaded, arrays).steps for _ in range(runs)), strict=True)
        return [
            {"name": steps[0].name, "op": steps[0].op, "ms": min(s.ns for s in steps) / 1e6} for steps in steps_of_runs
        ]

    names = [t.name for t in loaded.outputs]
    return Runner(mavcg.__version__, inputs, names, lambda arrays: loaded.run(*arrays), layers=layers)


def built_library(model: Path, precision: str = "f32") -> Path:
    """Return the model's library for this machine, built once for each version of mavcg and of the model.

    precision: of its arithmetic, as of --precision.
    """
    from bench.host_library import build_for_host
    from mavcg.files.store import code_folder

    digest = hashlib.sha256(model.read_bytes())
    for part in ("mavcg", "kernels", "passes", "runtime", "profiles"):
        for path in sorted((ROOT / part).rglob("*")):
            if path.suffix in (".py", ".c", ".h", ".toml") and not path.is_symlink():
                digest.update(path.read_bytes())
    name = model.stem if precision == "f32" else f"{model.stem}-{precision}"
    folder = code_folder() / "bench" / f"{name}-{digest.hexdigest()[:24]}"
    library = folder / "libmodel.so"
    if not library.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        older = sorted(folder.parent.glob(f"{name}-{'[0-9a-f]' * 24}"), key=lambda path: path.stat().st_mtime)
        for old in older[: -KEPT + 1]:
            shutil.rmtree(old, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = Path(scratch) / "model"
            made.mkdir()
            build_for_host(model, made / "libmodel.so", precision=precision)
            if not folder.exists():
                os.rename(made, folder)
    return library


def onnxruntime_runner(model: Path, threads: int, profile: bool = False) -> Runner:
    """Return onnxruntime's runner: its CPU provider, with all optimisations."""
    import onnxruntime as ort

    def session_of(trace: Path | None) -> Any:
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        if trace is not None:
            options.enable_profiling, options.profile_file_prefix = True, str(trace)
        return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    session = session_of(None)
    kinds = {
        "tensor(float)": "f4",
        "tensor(uint8)": "u1",
        "tensor(int8)": "i1",
        "tensor(int64)": "i8",
        "tensor(int32)": "i4",
    }
    own = [i for i in session.get_inputs()]
    inputs = [(tuple(d if isinstance(d, int) else 1 for d in i.shape), np.dtype(kinds[i.type])) for i in own]
    names = [o.name for o in session.get_outputs()]

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        outputs: Sequence[Array] = session.run(names, {i.name: a for i, a in zip(own, arrays, strict=True)})
        return outputs

    def layers(arrays: Sequence[Array], runs: int) -> list[dict[str, Any]]:
        with tempfile.TemporaryDirectory() as folder:  # a trace ends with its session
            traced = session_of(Path(folder) / "trace")
            for _ in range(runs):
                traced.run(names, {i.name: a for i, a in zip(own, arrays, strict=True)})
            return onnxruntime_layers(json.loads(Path(traced.end_profiling()).read_text()))

    return Runner(ort.__version__, inputs, names, run, layers=layers)


def onnxruntime_layers(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each node's least time from onnxruntime's trace, in execution order."""
    times: dict[str, list[float]] = {}
    ops: dict[str, str] = {}
    for event in events:
        if event.get("cat") == "Node" and str(event["name"]).endswith("_kernel_time"):
            name = str(event["name"]).removesuffix("_kernel_time")
            times.setdefault(name, []).append(event["dur"] / 1e3)
            ops[name] = event["args"]["op_name"]
    return [{"name": name, "op": ops[name], "ms": min(ms)} for name, ms in times.items()]


def litert_runner(model: Path, threads: int, profile: bool = False) -> Runner:
    """Return LiteRT's runner with XNNPACK, its default."""
    from importlib.metadata import version

    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(model), num_threads=threads)
    interpreter.allocate_tensors()
    own, outputs = interpreter.get_input_details(), interpreter.get_output_details()

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        for tensor, array in zip(own, arrays, strict=True):
            interpreter.set_tensor(tensor["index"], array)
        interpreter.invoke()
        return [interpreter.get_tensor(tensor["index"]) for tensor in outputs]

    inputs = [(tuple(int(d) for d in t["shape"]), np.dtype(t["dtype"])) for t in own]
    names = [t["name"] for t in outputs]
    converted = model.name.endswith(CONVERTED_TFLITE)
    return Runner(version("ai-edge-litert"), inputs, names, run, channels_last=converted)


CONVERTED_TFLITE = ".onnx.tflite"  # how files end that bench/peer_models.py makes of ONNX models


def openvino_runner(model: Path, threads: int, profile: bool = False, precision: str = "f32") -> Runner:
    """Return OpenVINO's runner on the CPU, one stream, in f32: its default is bf16 on cores that have it.

    Threads are not bound to cores, as with all runtimes. precision: f32, or bf16 in its default execution mode.
    """
    import openvino

    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": str(threads),
        "INFERENCE_PRECISION_HINT": precision,
        "ENABLE_CPU_PINNING": "NO",
        "PERF_COUNT": "YES" if profile else "NO",
    }
    compiled = openvino.compile_model(str(model), "CPU", settings)
    request = compiled.create_infer_request()
    inputs = [(tuple(int(d) for d in i.shape), np.dtype(i.element_type.to_dtype())) for i in compiled.inputs]

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        outputs = request.infer(list(arrays), share_inputs=True, share_outputs=True)
        return [outputs[i] for i in range(len(compiled.outputs))]

    def layers(arrays: Sequence[Array], runs: int) -> list[dict[str, Any]]:
        times: dict[str, list[float]] = {}
        kinds: dict[str, str] = {}
        for _ in range(runs):
            run(arrays)
            for info in request.get_profiling_info():
                times.setdefault(info.node_name, []).append(info.real_time.total_seconds() * 1e3)
                kinds[info.node_name] = f"{info.node_type} {info.exec_type}"
        timed: list[dict[str, Any]] = [{"name": name, "op": kinds[name], "ms": min(ms)} for name, ms in times.items()]
        return [layer for layer in timed if layer["ms"] > 0]

    names = [o.get_any_name() for o in compiled.outputs]
    return Runner(openvino.__version__.split("-")[0], inputs, names, run, layers=layers if profile else None)


def ncnn_runner(model: Path, threads: int, profile: bool = False, half: bool = False) -> Runner:
    """Return ncnn's runner for the .param file that pnnx made, in f32, or in f16 where the core computes in it.

    Of its defaults bf16 is off, Winograd is on. half: keep fp16 on, which is a default too.
    """
    from importlib.metadata import version

    import ncnn

    net = ncnn.Net()
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
        setattr(net.opt, option, half)
    net.opt.use_bf16_storage = False
    net.opt.use_vulkan_compute = False
    net.opt.num_threads = threads
    if net.load_param(str(model)) or net.load_model(str(model.with_suffix(".bin"))):
        raise RuntimeError("ncnn does not load it")
    shape = tuple(json.loads(model.with_suffix(".json").read_text())["input"])
    (source,), (target,) = net.input_names(), net.output_names()

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        extractor = net.create_extractor()
        if extractor.input(source, ncnn.Mat(arrays[0][0])):
            raise RuntimeError("ncnn refuses the input")
        status, output = extractor.extract(target)
        if status:
            raise RuntimeError(f"ncnn ends with {status}")
        return [np.array(output)]

    return Runner(version("ncnn"), [(shape, np.dtype("f4"))], [target], run)


def mnn_runner(model: Path, threads: int, profile: bool = False, half: bool = False) -> Runner:
    """Return MNN's runner, in f32: precision high. half: precision low, f16 where the core computes in it."""
    import MNN

    interpreter = MNN.Interpreter(str(model))
    session = interpreter.createSession(
        {"backend": "CPU", "numThread": threads, "precision": "low" if half else "high"}
    )
    source, target = interpreter.getSessionInput(session), interpreter.getSessionOutput(session)
    shape = tuple(source.getShape())
    caffe = MNN.Tensor_DimensionType_Caffe
    result = MNN.Tensor(target.getShape(), MNN.Halide_Type_Float, np.zeros(target.getShape(), dtype=np.float32), caffe)

    def run(arrays: Sequence[Array]) -> Sequence[Array]:
        source.copyFrom(MNN.Tensor(shape, MNN.Halide_Type_Float, arrays[0], caffe))
        if interpreter.runSession(session):
            raise RuntimeError("MNN refuses to run it")
        target.copyToHostTensor(result)
        return [result.getNumpyData().reshape(target.getShape())]

    return Runner(MNN.version(), [(shape, np.dtype("f4"))], ["output"], run)


# Runtimes that compute in f16 by an option of a call: (model, threads, profile, half).
HALF_RUNTIMES: Mapping[str, Callable[[Path, int, bool, bool], Runner]] = {"ncnn": ncnn_runner, "mnn": mnn_runner}
RUNTIMES: Mapping[str, Callable[[Path, int, bool], Runner]] = {
    "mavcg": mavcg_runner,
    "onnxruntime": onnxruntime_runner,
    "openvino": openvino_runner,
    "openvino_bf16": partial(openvino_runner, precision="bf16"),
    "litert": litert_runner,
    "ncnn": ncnn_runner,
    "mnn": mnn_runner,
}

"""mavcg.load: results against NumPy, clear errors, several models, threads, files that change."""

import ctypes
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mavcg
from mavcg.errors import MavcgError
from mavcg.runtime.amalgamation import SOURCES
from mavcg.toolchain.target import host_target
from mavcg.toolchain.zig import PLAIN_CODE_FLAGS, run_zig

Array = NDArray[Any]
Build = Callable[..., Path]
NO_NAP = np.zeros(1, np.int32)


def chained(x: Array) -> Array:
    """y of the exercise: halving is exact, so that each of the 12 layers rounds once, in the sum."""
    weights = (np.arange(1000) % 17 * 0.25).astype(np.float32)
    for _ in range(12):
        x = x[..., ::-1] * np.float32(0.5) + weights
    return x


def some_x(seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((1, 1000)).astype(np.float32)


@pytest.fixture
def model(build_library: Build) -> Iterator["mavcg.Model"]:
    with mavcg.load(build_library(), threads=2) as model:
        yield model


def test_what_a_model_says_of_itself(model: "mavcg.Model") -> None:
    assert (model.name, model.threads) == ("exercise", 2)
    assert [(t.name, t.shape, t.dtype) for t in model.inputs] == [
        ('x "quoted"', (1, 1000), np.dtype(np.float32)),
        ("ms", (1,), np.dtype(np.int32)),
    ]
    assert [(t.name, str(t.dtype), t.shape) for t in model.outputs] == [
        ("y", "float32", (1, 1000)),
        ("who", "int32", (96,)),
        ("modes", "uint32", (96,)),
        ("intact", "uint8", (96,)),
        ("naps", "int32", (3,)),
    ]
    assert (model.arena_bytes, model.scratch_bytes, model.constants_bytes) == (8192, 4096, 4064)
    assert 'x "quoted": float32[1, 1000]' in repr(model)


def test_results_are_those_of_the_definition(model: "mavcg.Model") -> None:
    for seed in range(20):
        x = some_x(seed)
        y, who, _, intact, naps = model.run(x, NO_NAP)

        assert y.tobytes() == chained(x).tobytes()
        assert (who >= 1).all() and intact.all() and not naps.any()


def test_arrays_that_lie_otherwise_are_copied(model: "mavcg.Model") -> None:
    x = some_x()
    doubled = np.repeat(x, 2, axis=1)[:, ::2]
    raw = np.zeros(4 * 1000 + 1, np.uint8)
    raw[1:] = np.frombuffer(x.tobytes(), np.uint8)
    shifted = raw[1:].view(np.float32).reshape(1, 1000)
    backwards = np.ascontiguousarray(x[:, ::-1])[:, ::-1]

    for array in (doubled, shifted, backwards, np.asfortranarray(x)):
        assert model.run(array, NO_NAP)[0].tobytes() == chained(x).tobytes()


def new_outputs(model: "mavcg.Model") -> list[Array]:
    return [np.full(tensor.shape, 77, tensor.dtype) for tensor in model.outputs]


def test_kept_outputs_are_written(model: "mavcg.Model") -> None:
    out = new_outputs(model)
    for seed in range(3):
        results = model.run(some_x(seed), NO_NAP, out=out)
        assert all(result is array for result, array in zip(results, out, strict=True))
        assert out[0].tobytes() == chained(some_x(seed)).tobytes()


@pytest.mark.parametrize(
    ("at", "change", "words"),
    [
        (0, lambda y: y[0], r"out \(y\): shape \[1000\], the model takes \[1, 1000\]"),
        (0, lambda y: y.astype(np.float64), r"out \(y\): float64"),
        (0, lambda y: np.repeat(y, 2, axis=1)[:, ::2], r"out \(y\): is not contiguous, aligned and writeable"),
        (
            1,
            lambda who: np.frombuffer(who.tobytes(), np.int32),
            r"out \(who\): is not contiguous, aligned and writeable",
        ),
        (1, list, r"out \(who\): is not a NumPy array"),
    ],
)
def test_kept_outputs_that_cannot_be_written(
    model: "mavcg.Model", at: int, change: Callable[[Array], Any], words: str
) -> None:
    out = new_outputs(model)
    with pytest.raises(MavcgError, match=words):
        model.run(some_x(), NO_NAP, out=[change(each) if i == at else each for i, each in enumerate(out)])
    assert all((each == 77).all() for each in out)


def test_kept_outputs_of_another_number_or_in_an_input(model: "mavcg.Model") -> None:
    with pytest.raises(MavcgError, match="out has 4 arrays, the model gives 5"):
        model.run(some_x(), NO_NAP, out=new_outputs(model)[1:])
    with pytest.raises(MavcgError, match="out has 1 arrays, the model gives 5"):
        model.run(some_x(), NO_NAP, out=new_outputs(model)[0])
    x = some_x()
    with pytest.raises(MavcgError, match="shares memory"):
        model.run(x, NO_NAP, out=[x, *new_outputs(model)[1:]])


class OtherTensor:
    """An array that only DLPack knows. device: by DLPack's numbers, 1 is the CPU, 2 CUDA."""

    def __init__(self, array: Array, device: int = 1) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        if self.device != 1:
            raise BufferError("it is on a GPU")
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


def test_tensors_of_other_libraries_by_dlpack(model: "mavcg.Model") -> None:
    x = some_x()

    assert model.run(OtherTensor(x), OtherTensor(NO_NAP))[0].tobytes() == chained(x).tobytes()
    assert model.run(OtherTensor(x[:, ::-1]), NO_NAP)[0].tobytes() == chained(x[:, ::-1]).tobytes()
    with pytest.raises(MavcgError, match=r"input 0 .*: float64, the model takes float32"):
        model.run(OtherTensor(x.astype(np.float64)), NO_NAP)
    with pytest.raises(MavcgError, match=r"cannot be read by DLPack \(.*\); give a tensor in the memory of the CPU"):
        model.run(OtherTensor(x, device=2), NO_NAP)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ((), r"0 inputs given, the model takes 2: x \"quoted\": float32\[1, 1000\], ms: int32\[1\]"),
        ((some_x(),), "1 inputs given, the model takes 2"),
        ((some_x()[0], NO_NAP), r"input 0 \(x \"quoted\"\): shape \[1000\], the model takes \[1, 1000\]"),
        ((some_x().astype(np.float64), NO_NAP), r"input 0 .*: float64, the model takes float32; .*astype\('float32'\)"),
        ((some_x().astype(">f4"), NO_NAP), "input 0 .*: >f4, the model takes float32"),
        ((some_x(), np.zeros((), np.int32)), r"input 1 \(ms\): shape \[\], the model takes \[1\]"),
        ((some_x(), [0]), r"input 1 \(ms\): int64, the model takes int32"),
        ((some_x(), "none"), r"input 1 \(ms\): shape \[\]"),
    ],
)
def test_wrong_arrays_are_refused_with_a_reason(model: "mavcg.Model", arrays: tuple[Any, ...], words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        model.run(*arrays)
    with pytest.raises(MavcgError, match=words):
        model.profile(*arrays)


def test_profile(model: "mavcg.Model") -> None:
    steps = model.profile(some_x(), np.full(1, 10, np.int32), runs=3)

    assert [s.kernel for s in steps] == ["chain_1"] * 12 + ["who_1", "modes_1", "intact_1"] + ["nap_1"] * 3
    assert steps[0].name == "layer 0" and (steps[0].rows, steps[0].grain, steps[0].work) == (1000, 64, 2000)
    # Those that sleep 10 ms, and at least one that does not: a busy machine may take the CPU away in any of them.
    assert all(s.ns > 9.9e6 for s in steps[-3:]) and 0 < min(s.ns for s in steps[:-3]) < 9e6
    with pytest.raises(MavcgError, match="runs=0"):
        model.profile(some_x(), NO_NAP, runs=0)


def test_a_closed_model(build_library: Build) -> None:
    model = mavcg.load(build_library())
    model.close()
    model.close()
    model.cancel()

    for use in (model.run, model.profile):
        with pytest.raises(MavcgError, match="the model is closed; load it again"):
            use(some_x(), NO_NAP)
    assert model.inputs[0].shape == (1, 1000) and "exercise" in repr(model)


def test_cancel_from_another_thread(model: "mavcg.Model") -> None:
    failed: list[str] = []

    def run() -> None:
        try:
            model.run(some_x(), np.full(1, 300, np.int32))
        except MavcgError as error:
            failed.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.15)
    model.cancel()
    thread.join()

    assert len(failed) == 1 and failed[0].endswith(": cancelled")
    assert model.run(some_x(), NO_NAP)[0].tobytes() == chained(some_x()).tobytes()


def test_the_interpreter_goes_on_while_a_model_runs(model: "mavcg.Model") -> None:
    ticks = 0
    thread = threading.Thread(target=lambda: model.run(some_x(), np.full(1, 100, np.int32)))
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        ticks += 1

    assert ticks > 50


@pytest.mark.parametrize("own_contexts", [True, False])
def test_several_python_threads(build_library: Build, own_contexts: bool) -> None:
    """A context each, or one that they wait for."""
    shared = mavcg.load(build_library(), threads=2)
    wrong: list[int] = []

    def work(seed: int) -> None:
        model = mavcg.load(build_library(), threads=2) if own_contexts else shared
        x = some_x(seed)
        for _ in range(50):
            if model.run(x, NO_NAP)[0].tobytes() != chained(x).tobytes():
                wrong.append(seed)
        if own_contexts:
            model.close()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared.close()

    assert wrong == []


def test_closing_waits_for_a_run(build_library: Build) -> None:
    model = mavcg.load(build_library())
    done: list[Array] = []
    thread = threading.Thread(target=lambda: done.extend(model.run(some_x(), np.full(1, 60, np.int32))))
    thread.start()
    time.sleep(0.05)
    model.close()
    thread.join()

    assert len(done) == 5 and (done[4] == 60).all()


def test_two_libraries_with_the_same_names(build_library: Build, tmp_path: Path) -> None:
    """A copy of a library defines the same symbols: each keeps to its own, even where symbols are shared globally."""
    copy = tmp_path / "libcopy.so"
    shutil.copy(build_library(), copy)
    ctypes.CDLL(str(copy), mode=ctypes.RTLD_GLOBAL)
    with mavcg.load(build_library()) as one, mavcg.load(copy) as two, mavcg.load(build_library("other_model")) as three:
        outputs = [m.run(some_x(), NO_NAP)[0].tobytes() for m in (one, two, three)]

        assert set(outputs) == {chained(some_x()).tobytes()}
        assert three.name == "other_model"


def test_a_library_that_was_built_again(build_library: Build, tmp_path: Path) -> None:
    path = tmp_path / "libmodel.so"
    shutil.copy(build_library(), path)
    old = mavcg.load(path)
    newer = tmp_path / "newer"
    shutil.copy(build_library("other_model"), newer)
    newer.replace(path)
    with pytest.raises(MavcgError, match="has changed since it was loaded"):
        mavcg.load(path)
    assert old.run(some_x(), NO_NAP)[0].tobytes() == chained(some_x()).tobytes()
    old.close()

    with mavcg.load(path) as new:
        assert new.name == "other_model"


def test_dropped_models_are_closed(build_library: Build) -> None:
    from mavcg.runtime.library_tables import _libraries

    before = dict(_libraries)
    mavcg.load(build_library())

    assert _libraries == before


def test_a_library_of_an_earlier_header(tmp_path: Path) -> None:
    """The table is what it was when libraries exported other names, so that those still load."""
    (tmp_path / "old.c").write_text(
        '#include "engine_api.h"\n'
        "static int create(const mavcg_options *o, void **c) { (void)o; *c = &create; return 0; }\n"
        "static void destroy(void *c) { (void)c; }\n"
        "static int run(void *c, const void *const *in, void *const *out) {\n"
        "    (void)c; *(float *)out[0] = 2 * *(const float *)in[0]; return 0; }\n"
        "static int threads(const void *c) { (void)c; return 1; }\n"
        "static const int64_t dims[] = {1};\n"
        'static const mavcg_tensor x = {"x", MAVCG_F32, 1, dims, 4}, y = {"y", MAVCG_F32, 1, dims, 4};\n'
        'static const mavcg_model_table table = {.api = 1, .input_count = 1, .output_count = 1, .name = "old",\n'
        "    .inputs = &x, .outputs = &y, .create = create, .destroy = destroy, .run = run, .threads = threads};\n"
        "int old_run(void) { return 0; }\n"
        "const mavcg_model_table *mavcg_model_api(void) { return &table; }\n"
    )
    flags = ["-target", host_target().zig_name, *PLAIN_CODE_FLAGS, "-shared", "-nostdlib", f"-I{SOURCES}"]
    run_zig("cc", [*flags, "old.c", "-o", "libold.so"], "compiling a library of before", tmp_path)

    with mavcg.load(tmp_path / "libold.so") as model:
        assert model.run(np.full(1, 21, np.float32))[0].tolist() == [42.0]
        assert str(model.inputs[0]) == "x: float32[1]"
        assert (model.states, model.state_bytes) == ((), 0)
        with pytest.raises(MavcgError, match="was built by an earlier mavcg, without states; build it again"):
            model.reset()


def test_files_that_are_no_model_libraries(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("not a library")
    for name, words in (("missing.so", "No such file"), ("text.so", "cannot be loaded"), (".", "cannot be loaded")):
        with pytest.raises(MavcgError, match=words):
            mavcg.load(tmp_path / name)
    import _ctypes

    with pytest.raises(MavcgError, match="is not a library of a whole model"):
        mavcg.load(_ctypes.__file__ if hasattr(_ctypes, "__file__") else "libc.so.6")


@pytest.mark.parametrize(
    ("threads", "words"),
    [
        (-1, "threads=-1: give a number"),
        (5000, "threads is 0 to 1024"),
        ("all", "threads=all: .*auto"),
        ("1.5", "threads=1.5"),
        ("9" * 5000, "threads=9"),
    ],
)
def test_threads_out_of_range(build_library: Build, threads: int | str, words: str) -> None:
    with pytest.raises(MavcgError, match=words):
        mavcg.load(build_library(), threads=threads)
    with mavcg.load(build_library(), threads=0) as model:  # and what is left behind does no harm
        assert model.threads >= 1
    with mavcg.load(build_library(), threads=3, pin=True) as model:
        assert model.run(some_x(), NO_NAP)[0].tobytes() == chained(some_x()).tobytes()

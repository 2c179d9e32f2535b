"""States of a context: kept between runs, reset, saved and restored; undefined after a run that did not end."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mavcg
from mavcg.errors import MavcgError
from mavcg.graph import TensorType
from mavcg.objects.library import link_shared
from mavcg.runtime.companions import write_companions
from mavcg.runtime.declared import ffi
from mavcg.runtime.model_build import build_model_objects
from mavcg.runtime.model_text import states_digest
from mavcg.specs.model_program import (
    ONLY_COPY,
    READ_COPY,
    WRITTEN_COPY,
    OperandAddress,
    Program,
    ProgramState,
    ProgramStep,
    ProgramTensor,
)
from mavcg.toolchain.target import host_target
from tests.runtime.engine.conftest import CONSTANTS, LENGTH, SCRATCH, TWO_CORES, WEIGHTS, kernel_objects

ROW, COUNT = TensorType("f32", (1, LENGTH)), TensorType("i32", (1,))
ROW_BYTES, SWAPPED = 4 * LENGTH, 4032
WEIGHTS_AT, MS = OperandAddress("constants", 64), OperandAddress("input", 0, 0)
LAST = OperandAddress("state", 0, ONLY_COPY)
BUSY, NULL = ffi.integer_const("MAVCG_BUSY"), ffi.integer_const("MAVCG_ERROR_NULL")
SIZE, STATE = ffi.integer_const("MAVCG_ERROR_SIZE"), ffi.integer_const("MAVCG_ERROR_STATE")


def h(copy: int) -> OperandAddress:
    return OperandAddress("state", 64, copy)


def stateful(name: str = "stateful") -> Program:
    """h, in two copies, goes through a layer a run, from the weights; y is the next layer. last: ms of the run before,
    in place, returned as `before`."""

    def nap(step: str, source: OperandAddress, target: OperandAddress) -> ProgramStep:
        return ProgramStep(step, "nap", "nap_1", (source, target), 1, 1 << 62, 1)

    def layer(step: str, source: OperandAddress, target: OperandAddress) -> ProgramStep:
        return ProgramStep(step, "chain", "chain_1", (source, WEIGHTS_AT, target), LENGTH, 64, 2000)

    steps = (
        nap("first nap", MS, OperandAddress("output", 0, 1)),
        layer("layer", h(READ_COPY), h(WRITTEN_COPY)),
        nap("before", LAST, OperandAddress("output", 0, 1)),
        nap("last nap", MS, LAST),
        layer("result", h(WRITTEN_COPY), OperandAddress("output", 0, 0)),
    )
    states = (ProgramState("last", COUNT, 1, 2, 0, True), ProgramState("h", ROW, 2, 3, 64, False, 64))
    inputs, outputs = (ProgramTensor("ms", COUNT),), (ProgramTensor("y", ROW), ProgramTensor("before", COUNT))
    size = 64 + 2 * SWAPPED
    return Program(name, inputs, outputs, steps, 0, SCRATCH, len(CONSTANTS), 0, (), (), (), (), states, size, SWAPPED)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, target = tmp_path_factory.mktemp("states"), host_target()
    kernels = kernel_objects(TWO_CORES, target, folder)
    objects = build_model_objects(stateful(), CONSTANTS, kernels, TWO_CORES, {}, target, folder / "objects")
    link_shared(objects, folder / "libstateful.so", target)
    write_companions(stateful(), folder / "libstateful.so")
    return folder / "libstateful.so"


@pytest.fixture(params=[1, 2])
def model(library: Path, request: pytest.FixtureRequest) -> Iterator["mavcg.Model"]:
    with mavcg.load(library, threads=request.param) as model:
        yield model


def ms(value: int) -> Any:
    return np.array([value], np.int32)


def results(count: int) -> list[bytes]:
    """y of each run from the first one on: halving is exact, so that a layer rounds once, in the sum."""
    kept, made = WEIGHTS[np.newaxis], []
    for _ in range(count):
        kept = kept[..., ::-1] * np.float32(0.5) + WEIGHTS
        made.append((kept[..., ::-1] * np.float32(0.5) + WEIGHTS).tobytes())
    return made


def test_a_run_reads_what_the_run_before_left(model: "mavcg.Model") -> None:
    described = [(t.name, t.shape, str(t.dtype)) for t in model.states]
    assert described == [("last", (1,), "int32"), ("h", ROW.shape, "float32")]
    assert model.state_bytes == 64 + 2 * SWAPPED
    for _ in range(2):
        previous = 0
        for number, right in enumerate(results(5)):
            y, before = model.run(ms(number % 3))
            assert y.tobytes() == right and before.tolist() == [previous]
            previous = number % 3
        model.reset()


def test_contexts_have_states_of_their_own(model: "mavcg.Model", library: Path) -> None:
    right = results(3)
    with mavcg.load(library) as other:
        assert [model.run(ms(0))[0].tobytes() for _ in range(3)] == right
        assert [other.run(ms(0))[0].tobytes() for _ in range(2)] == right[:2]
        other.restore_state(model.save_state())
        assert other.run(ms(0))[0].tobytes() == results(4)[3] == model.run(ms(0))[0].tobytes()


def test_saved_states_are_restored_whatever_ran_since(model: "mavcg.Model") -> None:
    """Also where the copies have changed places an odd number of times in between."""
    for runs_before in (0, 1, 2):
        for runs_after in (1, 2):
            model.reset()
            for _ in range(runs_before):
                model.run(ms(1))
            saved = model.save_state()
            assert len(saved) == 16 + 4 + ROW_BYTES
            for _ in range(runs_after):
                model.run(ms(0))
            model.restore_state(saved)
            assert model.save_state() == saved
            y, before = model.run(ms(0))
            assert y.tobytes() == results(runs_before + 1)[-1]
            assert before.tolist() == [min(runs_before, 1)]


def test_bytes_that_are_no_states_are_refused(model: "mavcg.Model") -> None:
    saved = model.save_state()
    for wrong in (b"", saved[:-1], saved + b"\0"):
        with pytest.raises(MavcgError, match="has not the size that the model needs"):
            model.restore_state(wrong)
    for at in (0, 7, 8, 15):
        damaged = bytearray(saved)
        damaged[at] ^= 1
        with pytest.raises(MavcgError, match="those to restore are another model's"):
            model.restore_state(bytes(damaged))
    assert model.run(ms(0))[0].tobytes() == results(1)[0]


def test_models_with_other_states_have_another_mark() -> None:
    program = stateful()
    renamed = ProgramState("other", COUNT, 1, 2, 0, True)
    others = (program.states[:1], program.states[::-1], (renamed, program.states[1]))
    marks = {states_digest(Program("g", (), (), (), 0, 0, 0, 0, states=states)) for states in (program.states, *others)}
    assert len(marks) == 4


def run_beside(model: "mavcg.Model", beside: Any) -> list[str]:
    """Call `beside` until a run of another thread, of some naps, has ended; return the run's error if it has one."""
    errors: list[str] = []

    def run() -> None:
        try:
            model.run(ms(60))
        except MavcgError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        beside()
    thread.join()
    return errors


def test_after_a_cancelled_run_states_are_undefined(model: "mavcg.Model") -> None:
    saved = (model.run(ms(0)), model.save_state())[1]
    for repair in (model.reset, lambda: model.restore_state(saved)):
        errors = run_beside(model, model.cancel)
        assert len(errors) == 1 and "cancelled" in errors[0]
        for call in (lambda: model.run(ms(0)), model.save_state):
            with pytest.raises(MavcgError, match="the states are undefined, as a run did not end: reset or restore"):
                call()
        repair()
        model.run(ms(0))
    assert model.run(ms(0))[0].tobytes() == results(3)[2]


def test_states_of_a_running_context_are_out_of_reach(model: "mavcg.Model") -> None:
    table, context = model._table, model._context
    size = table.state_size(context)
    buffer, seen = ffi.new("char[]", model.save_state()), set[int]()

    def reach() -> None:
        seen.update([table.state_save(context, buffer, size), table.state_restore(context, buffer, size)])

    for _ in range(100):
        errors = run_beside(model, reach)
        assert all("is in a run" in error for error in errors)  # of a run that began while the states were being copied
        if BUSY in seen:
            break

    assert BUSY in seen and seen <= {0, BUSY}


def test_faults_of_a_caller(model: "mavcg.Model") -> None:
    table, context = model._table, model._context
    size = table.state_size(context)
    buffer = ffi.new("char[]", size + 1)
    assert table.state_size(ffi.NULL) == 0 and size == len(model.save_state())
    assert table.reset(ffi.NULL) == NULL
    assert table.state_save(ffi.NULL, buffer, size) == table.state_save(context, ffi.NULL, size) == NULL
    assert table.state_restore(context, ffi.NULL, size) == NULL
    assert table.state_save(context, buffer, size - 1) == table.state_save(context, buffer, size + 1) == SIZE
    assert table.state_restore(context, buffer, size) == STATE  # of zeros
    unaligned = buffer + 1
    assert table.state_save(context, unaligned, size) == 0 == table.state_restore(context, unaligned, size)
    model.close()
    for call in (model.reset, model.save_state, lambda: model.restore_state(b"")):
        with pytest.raises(MavcgError, match="the model is closed"):
            call()


def test_a_model_without_states(build_library: Any) -> None:
    with mavcg.load(build_library()) as model:
        model.reset()
        saved = model.save_state()
        assert (model.states, model.state_bytes, len(saved)) == ((), 0, 16)
        model.restore_state(saved)


USE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "stateful.h"
#define CHECK(condition) if (!(condition)) return printf("line %d\\n", __LINE__), 1

int main(void) {
    static float y[2][1000];
    int32_t ms = 0, before = 0;
    const void *inputs[] = {&ms};
    void *outputs[] = {y[0], &before}, *again[] = {y[1], &before};
    stateful_context *context;
    CHECK(stateful_create(NULL, &context) == MAVCG_OK);
    size_t states = 0, size = stateful_state_size(context);
    CHECK(stateful_states(&states) && states == 2);
    char *saved = malloc(size);
    CHECK(stateful_run(context, inputs, outputs) == MAVCG_OK);
    CHECK(stateful_state_save(context, saved, size) == MAVCG_OK);
    CHECK(stateful_run(context, inputs, outputs) == MAVCG_OK);
    CHECK(stateful_state_restore(context, saved, size) == MAVCG_OK);
    CHECK(stateful_run(context, inputs, again) == MAVCG_OK && !memcmp(y[0], y[1], sizeof y[0]));
    CHECK(stateful_reset(context) == MAVCG_OK);
    CHECK(stateful_run(context, inputs, again) == MAVCG_OK && memcmp(y[0], y[1], sizeof y[0]));
    stateful_destroy(context);
    free(saved);
    return 0;
}
"""


CPP = """
#include <cstring>
#include <vector>
#include "stateful.hpp"

int main() {
    std::vector<float> y(1000), again(1000);
    std::int32_t ms = 0, before = 0;
    const auto run = [&](auto &context, std::vector<float> &out) { return context.run({&ms, 1}, out, {&before, 1}); };
    mavcg_stateful::context context;
    if (context.states().size() != 2) return 1;
    std::vector<std::byte> saved(context.state_size());
    if (run(context, y) || context.save_state(saved) || run(context, y) || context.restore_state(saved)) return 2;
    if (run(context, again) || std::memcmp(y.data(), again.data(), 4000)) return 3;
    if (context.reset() || run(context, again) || !std::memcmp(y.data(), again.data(), 4000)) return 4;
    return context.restore_state(std::span(saved).first(3)) == MAVCG_ERROR_SIZE ? 0 : 5;
}
"""


@pytest.mark.long
@pytest.mark.parametrize(("compiler", "standard", "text"), [("gcc", "c11", USE), ("g++", "c++20", CPP)])
def test_from_c_and_cpp(library: Path, compiler: str, standard: str, text: str) -> None:
    header = (library.parent / "stateful.h").read_text()
    assert "States, which stay in a context between runs, in this order:\n *     0  last: i32[1], 4 bytes" in header
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    source = library.parent / ("use.c" if compiler == "gcc" else "use.cpp")
    source.write_text(text)
    program = source.with_suffix("")
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", f"-Wl,-rpath,{library.parent}"]
    subprocess.run([compiler, *flags, str(source), str(library), "-o", str(program)], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.long
def test_nothing_beside_the_states_is_touched(build_checked: Any, tmp_path: Path) -> None:
    """The engine under the sanitizers of addresses and of undefined behaviour: runs, save, restore, reset."""
    (tmp_path / "use.c").write_text(USE)
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    program = build_checked(flags, program=stateful(), driver=tmp_path / "use.c")
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_forked_child_has_states_of_its_own(library: Path) -> None:
    right = results(3)
    with mavcg.load(library) as model:
        model.run(ms(0))
        child = os.fork()
        if child == 0:  # without pytest's handlers
            same = [model.run(ms(0))[0].tobytes() for _ in range(2)] == right[1:]
            os._exit(0 if same else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert model.run(ms(0))[0].tobytes() == right[1]

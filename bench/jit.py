"""Kernels compiled in memory for this machine, to measure single kernels."""

import ctypes
from collections.abc import Callable, Sequence

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from mavcg.choose.tiles.tiles import plan_tiles
from mavcg.cost.board_model import cores_of
from mavcg.hardware.core import GENERIC
from mavcg.hosts.host import host_board, measured_host_board
from mavcg.kernels.builder.emit import kernel_name
from mavcg.kernels.builder.module_text import add_core_attributes
from mavcg.kernels.registry import emit
from mavcg.profiles.load import cores_for
from mavcg.runtime.binding import runnable_machine
from mavcg.runtime.machines import machines_for
from mavcg.specs.kernel import Array, Machine, Step
from mavcg.specs.tile_plan import MacroTile, worthwhile_call_rows
from mavcg.toolchain.target import host_target, parse_target


def host_machine() -> Machine:
    """Return the emitters' description of this machine's first core."""
    board = host_board()
    cores = cores_for(board.cores) if board.cores else ()
    machines = machines_for(cores, parse_target(board.target))
    return runnable_machine(machines[cores[0].name if cores else GENERIC])


class Compiled:
    """A module compiled for this machine; .text is its IR."""

    def __init__(self, text: str, machine: Machine) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.text, self.machine = text, machine
        parsed = llvm.parse_assembly(text)
        target_machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=machine.llvm_cpu, features=",".join(machine.llvm_features), opt=3, jit=True
        )
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        builder = llvm.create_pass_builder(target_machine, options)
        builder.getModulePassManager().run(parsed, builder)
        self.assembly = target_machine.emit_assembly(parsed)
        self.engine = llvm.create_mcjit_compiler(parsed, target_machine)
        self.engine.finalize_object()

    def address(self, name: str) -> int:
        """Return the address of a function."""
        return int(self.engine.get_function_address(name))


def compile_step(step: Step, machine: Machine, macro: MacroTile | None = None) -> Compiled:
    """Compile one kernel with the macro-tile `macro`."""
    module = ir.Module("bench")
    module.triple = llvm.get_default_triple()
    emit(module, step.spec, machine, macro)
    return Compiled(add_core_attributes(module, machine), machine)


def planned(step: Step, machine: Machine) -> MacroTile | None:
    """Return the macro-tile of a kernel in a library for this machine; None for kernels without macro-tiles."""
    cores = cores_of([machine.name], host_target(), measured_host_board())
    return plan_tiles([step.spec], cores).of(kernel_name(step.spec), machine.name)


LOOPS = """
define void @repeat(ptr %function, i64 %a, i64 %b, i64 %c, i64 %d, i64 %times) {
entry:
  br label %turn
turn:
  %done = phi i64 [ 0, %entry ], [ %next, %turn ]
  call void %function(i64 %a, i64 %b, i64 %c, i64 %d)
  %next = add i64 %done, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %turn, label %end
end:
  ret void
}

define void @tasks(ptr %kernel, ptr %args, i64 %rows, i64 %grain, ptr %scratch, i64 %times) {
entry:
  br label %turn
turn:
  %done = phi i64 [ 0, %entry ], [ %again, %whole ]
  br label %task
task:
  %begin = phi i64 [ 0, %turn ], [ %end, %task ]
  %next = add i64 %begin, %grain
  %inside = icmp slt i64 %next, %rows
  %end = select i1 %inside, i64 %next, i64 %rows
  call void %kernel(ptr %args, i64 %begin, i64 %end, ptr %scratch)
  br i1 %inside, label %task, label %whole
whole:
  %again = add i64 %done, 1
  %more = icmp slt i64 %again, %times
  br i1 %more, label %turn, label %out
out:
  ret void
}
"""


class Loops:
    """Compiled loops around calls: one call from Python takes as long as a small product."""

    def __init__(self, machine: Machine) -> None:
        self._compiled = Compiled(f'target triple = "{llvm.get_default_triple()}"\n{LOOPS}', machine)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *(ctypes.c_int64 for _ in range(5)))
        self._repeat, self._tasks = (kind(self._compiled.address(name)) for name in ("repeat", "tasks"))

    def repeat(self, address: int, arguments: tuple[int, int, int, int], times: int) -> None:
        """Call the function at `address` with four integers or addresses, `times` times, at least once."""
        self._repeat(address, *arguments, times)

    def tasks(self, kernel: int, args: int, rows: int, grain: int, scratch: int, times: int) -> None:
        """Run all rows of the kernel at an address, `grain` rows per call, as a library does.

        `times` times, at least once.
        """
        self._tasks(kernel, args, rows, grain, scratch, times)


def call_rows(step: Step, macro: MacroTile | None) -> int:
    """Return the rows that a library computes in one call of the kernel."""
    return macro.call_rows if macro is not None else worthwhile_call_rows(step.spec)


def caller(
    compiled: Compiled, step: Step, arrays: Sequence[Array], macro: MacroTile | None = None
) -> Callable[..., None]:
    """Return a function that calls the kernel over all its rows, in tasks as a library does; its argument repeats that.

    arrays: the operands in order; the returned function keeps them alive.
    """
    loops = Loops(compiled.machine)
    kernel, rows, grain = compiled.address(kernel_name(step.spec)), step.spec.rows, call_rows(step, macro)
    args = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    scratch = np.zeros(step.spec.scratch_bytes + 64, np.uint8)
    operands, temporary = ctypes.addressof(args), scratch.ctypes.data
    keep = (compiled, args, scratch, list(arrays))

    def call(times: int = 1, keep: object = keep) -> None:
        loops.tasks(kernel, operands, rows, grain, temporary, times)

    return call

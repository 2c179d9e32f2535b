"""Specs of kernels -> object files: each kernel emitted and compiled once per core."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from llvmlite import ir

from mavcg.codegen import CodegenJob, compile_module
from mavcg.kernel import KernelSpec, Machine
from mavcg.kernels.emit import kernel_name, prepared
from mavcg.kernels.registry import emit
from mavcg.target import Target

# Emitters write the vectors and the unrolling that they want; nothing is to be added to that.
_FLAGS = ("-fPIC", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops")
KERNELS_PER_MODULE = 8  # more share a compiler's start, fewer keep all CPUs busy to the end


def version_symbol(kernel: str, label: str) -> str:
    """The linkage name of a kernel's version: label is "generic" or a core's name."""
    return f"{kernel}.{label}"


def kernel_module(specs: Sequence[KernelSpec], machine: Machine, label: str, target: Target) -> str:
    """The IR text of these kernels' versions for one core."""
    module = ir.Module("kernels")
    module.triple = target.llvm_triple
    for spec in specs:
        emit(module, spec, machine)
    text = prepared(module, machine)
    for spec in specs:
        name = kernel_name(spec)
        text = text.replace(f'@"{name}"', f'@"{version_symbol(name, label)}"')
    return text


def kernel_objects(
    specs: Sequence[KernelSpec],
    machines: Mapping[str, Machine],
    target: Target,
    folder: Path,
    workers: int,
    progress: Callable[[str], None],
) -> list[Path]:
    """Compile every spec for every machine into objects in `folder`."""
    parts = [specs[i : i + KERNELS_PER_MODULE] for i in range(0, len(specs), KERNELS_PER_MODULE)]
    jobs = [(label, number, part) for label in machines for number, part in enumerate(parts)]

    def work(job: tuple[str, int, Sequence[KernelSpec]]) -> Path:
        label, number, part = job
        text = kernel_module(part, machines[label], label, target)
        out = folder / f"kernels-{label}-{number}.o"
        what = f"compiling kernels for {label}"
        compile_module(CodegenJob(text, target, what, opt_level="2", emit="obj", flags=_FLAGS), out)
        progress(what)
        return out

    with ThreadPoolExecutor(max(1, workers)) as pool:
        return list(pool.map(work, jobs))

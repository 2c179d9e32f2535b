"""Functions in LLVM IR, compiled in memory for this machine."""

import llvmlite.binding as llvm
from llvmlite import ir

from mavcg.toolchain.in_memory import compile_in_memory


def host_engine(module: ir.Module) -> llvm.ExecutionEngine:
    """Compile a module with this machine's instructions. Its functions are there as long as the engine is."""
    features = llvm.get_host_cpu_features().flatten().split(",")
    return compile_in_memory(str(module), llvm.get_host_cpu_name(), features, 2)

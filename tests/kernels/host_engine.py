"""Functions in LLVM IR, compiled in memory for this machine."""

import llvmlite.binding as llvm
from llvmlite import ir


def host_engine(module: ir.Module) -> llvm.ExecutionEngine:
    """Compile a module with this machine's instructions. Its functions are there as long as the engine is."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, jit=True
    )
    engine = llvm.create_mcjit_compiler(parsed, machine)
    engine.finalize_object()
    return engine

"""Compile LLVM IR in memory for this machine, in this process; code of a text that was compiled before is kept."""

from collections.abc import Sequence

import llvmlite.binding as llvm

from mavcg.toolchain.codegen import open_code


def compile_in_memory(
    text: str, cpu: str, features: Sequence[str], level: int, passes: int = 0, vectorise: bool = True
) -> llvm.ExecutionEngine:
    """Compile IR. Its functions are there as long as the engine is.

    level: of code generation, 0 to 3. passes: level of the passes over the IR; 0: none. vectorise: False where these
    passes leave loops and straight code as they are. Raises: RuntimeError with LLVM's message for IR that it refuses.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=",".join(features), opt=level, jit=True
    )
    store = open_code()
    key = "\0".join(["in memory", machine.triple, cpu, *features, str(level), str(passes), str(vectorise), text])
    code = store.get(key)
    if code is None:
        module = llvm.parse_assembly(text)
        module.verify()
        if passes:
            options = llvm.create_pipeline_tuning_options(speed_level=passes)
            if not vectorise:
                options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(module, builder)
        code = machine.emit_object(module)
        store.put(key, code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine

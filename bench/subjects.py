"""The code that each record in bench/results/ depends on: if its digest changes, the record is older than the code."""

from collections.abc import Mapping

from bench.code_digest import Subject

_SELECTOR = tuple(
    f"runtime/csrc/{name}"
    for name in (
        "cpu_map.c",
        "cpuinfo.c",
        "entries.c",
        "names.c",
        "needs.c",
        "platform_*.c",
        "process_*.c",
        "select.c",
        "set.c",
        "shared_*.c",
        "start.c",
        "sysfs.c",
        "table.c",
        "text.c",
        "trace.c",
        "uniform.c",
        "x86.c",
        "x86_features.c",
        "*.h",
    )
)
_ENGINE = ("runtime/csrc/engine*.c", "runtime/csrc/engine*.h")
_MODEL = Subject(("mavcg.model.model", "mavcg.choose.algorithms.select_model", "mavcg.runtime.loading"), _ENGINE)
_PROGRAM = ("mavcg.program.program", "mavcg.program.request")
_PROGRAMS = ("examples/edge_app/ops/*.c", "examples/edge_app/*.cpp")
_ARM_FACTS = ("profiles/cores/cortex-*.toml", "profiles/cores/exynos-*.toml")
_MACHINE_PASSES = ("mavcg.passes.asm.tune", "mavcg.assembly.tuning", "mavcg.profiles.timing")
_OPERATORS = (
    "mavcg.importers.load",
    "mavcg.passes.graph.pipeline",
    "mavcg.choose.lowering.lower",
    "mavcg.kernels.registry",
)
_PLANNER = tuple(f"mavcg.accelerators.plans.{name}" for name in ("request", "networks", "baselines", "planned"))

SUBJECTS: Mapping[str, Subject] = {
    "accel_accuracy": Subject(
        ("mavcg.accelerators.accuracy", "mavcg.accelerators.from_graph", "mavcg.accelerators.networks")
    ),
    "accel_fusion": Subject(
        (
            "mavcg.accelerators.from_graph",
            "mavcg.accelerators.fusion.plan",
            "mavcg.accelerators.fusion.report",
            "mavcg.accelerators.networks",
        ),
        ("mavcg/accelerators/fusion/templates.toml", "profiles/isa_targets/zu*.toml"),
    ),
    "accel_learned": Subject(
        (
            "mavcg.accelerators.codegen.simulated_costs",
            "mavcg.accelerators.costs.learned",
            "mavcg.accelerators.group_search",
        ),
        ("profiles/isa_targets/zu*.toml", "mavcg/accelerators/fusion/templates.toml"),
    ),
    "accel_simulated": Subject(
        (
            "mavcg.accelerators.codegen.simulated_costs",
            "mavcg.accelerators.fusion.plan",
            "mavcg.accelerators.from_graph",
        ),
        ("profiles/isa_targets/zu*.toml", "mavcg/accelerators/fusion/templates.toml"),
    ),
    "arena": Subject(("mavcg.memory.placement_search", "mavcg.memory.instance_file"), ("mavcg/memory/csrc/*.c",)),
    "before": _MODEL,
    "blas_peers": Subject(("mavcg.model.blas.library",), ("runtime/csrc/blas*.[ch]",)),
    "build_time": Subject(_PROGRAM, _PROGRAMS),
    "caffe_networks": Subject(
        ("mavcg.importers.caffe_file", "mavcg.passes.graph.pipeline"), ("bench/caffe_networks.py",)
    ),
    "conv_layers": Subject(("mavcg.kernels.registry",)),
    "dispatch": Subject(("mavcg.passes.ir.dispatch", "mavcg.runtime.build"), _SELECTOR),
    "cost_safety_factors": Subject(
        ("mavcg.choose.algorithms.costs.engine_costs", "mavcg.choose.algorithms.select_model")
    ),
    "explore": Subject(
        (
            "mavcg.accelerators.explore.exploration",
            "mavcg.accelerators.explore.space_file",
            "mavcg.lab.jobs.forked_engine",
            *_PLANNER,
        ),
        ("profiles/technologies/45nm.toml",),
    ),
    "explore_boards": Subject(
        (
            "mavcg.accelerators.explore.board_exploration",
            "mavcg.accelerators.explore.board_predictions",
            "mavcg.accelerators.explore.board_space",
        ),
        ("profiles/power/cores.toml",),
    ),
    "fuzz_c_targets": Subject(
        ("mavcg.runtime.coreset", "mavcg.runtime.model_text"),
        (*_SELECTOR, *_ENGINE, "runtime/csrc/trace.c", "fuzz/c/*.c"),
    ),
    "fuzz_models": Subject(_OPERATORS),
    "differential": Subject(_OPERATORS),
    "fuzz_targets": Subject(
        (
            "mavcg.importers.load",
            "mavcg.program.profiling.load",
            "mavcg.program.sources.compile_commands",
            "mavcg.passes.asm.tune",
            "mavcg.accelerators.plans.text.verify",
        )
    ),
    "gemm_peers": Subject(("mavcg.kernels.conv.matmul", "mavcg.kernels.gemm.micro_kernel")),
    "gpu": Subject(
        (
            "mavcg.accelerators.gpu.kernel_search",
            "mavcg.accelerators.gpu.layer_source",
            "mavcg.accelerators.gpu.network_program",
        ),
        ("mavcg/accelerators/gpu/csrc/*", "profiles/gpus/h100.toml"),
    ),
    "gpu_baselines": Subject((*_PLANNER, "mavcg.accelerators.gpu.block_machine"), ("profiles/gpus/*.toml",)),
    "growth": Subject(_PROGRAM, (*_SELECTOR, *_PROGRAMS)),
    "growth_app": Subject(_PROGRAM, _SELECTOR),
    "handover": Subject(("mavcg.runtime.model_build",), _ENGINE),
    "ir_split": Subject((*_MACHINE_PASSES, "mavcg.passes.ir.split_vector_loads"), (*_ARM_FACTS, "bench/kernels/*.c")),
    "joint_memory": Subject(("mavcg.apps.plan", "mavcg.apps.models", "mavcg.accelerators.networks")),
    "machine_passes": Subject(_MACHINE_PASSES, (*_ARM_FACTS, "bench/kernels/*.c")),
    "mcpu_sweep": Subject(_MACHINE_PASSES, (*_ARM_FACTS, "bench/kernels/*.c", *_PROGRAMS)),
    "mcpu_sweep_host": Subject((), _PROGRAMS),
    "model_accuracy": Subject((*_OPERATORS, "mavcg.kernels.builder.emit")),
    "model_build": _MODEL,
    "drop_in_survey": Subject((*_OPERATORS, "mavcg.model.partial_build")),
    "drop_in_times": Subject((*_OPERATORS, "mavcg.model.partial_build"), _ENGINE),
    "onnx_node_tests": Subject(_OPERATORS),
    "onnx_node_tests_library": _MODEL,
    "pbqp": Subject(("mavcg.choose.pbqp", "mavcg.choose.algorithms.choice", "mavcg.kernels.primitives.registry")),
    "paper_networks": Subject(
        (*_OPERATORS, "mavcg.program.profiling.function_classes", "mavcg.choose.predict.predict"),
        ("bench/seeded_networks/*.py",),
    ),
    "peers": _MODEL,
    "peers_amx": _MODEL,
    "precision_accuracy": Subject((*_OPERATORS, "bench.derived_models")),
    "pipelines": Subject(
        ("mavcg.apps.library", "mavcg.choose.predict.predict", "mavcg.runtime.timed_pipeline"), _ENGINE
    ),
    "plan_baselines": Subject(_PLANNER),
    "plan_networks": Subject(
        (
            "mavcg.graph.networks",
            "mavcg.accelerators.plans.network_plan",
            "mavcg.choose.layer_model.graph_layers",
        )
    ),
    "plan_run": Subject((*_PLANNER, "mavcg.accelerators.plans.text.network_c")),
    "plan_search": Subject(_PLANNER),
    "plan_seconds": Subject((*_PLANNER, "mavcg.accelerators.plans.schedule_cache")),
    "plan_tables": Subject(_PLANNER),
    "planned_tiles": Subject(("mavcg.choose.tiles.tiles", "mavcg.kernels.registry", "mavcg.kernels.builder.emit")),
    "tiling_models": Subject(("mavcg.choose.tiles.tiles", "mavcg.kernels.registry")),
    "predicted": Subject(("mavcg.choose.predict.predict", "mavcg.model.model")),
    "primitive_scenarios": Subject(
        ("mavcg.kernels.primitives.registry", "mavcg.lab.trials.check", "mavcg.lab.trials.run")
    ),
    "depth_first": Subject(("mavcg.choose.predict.depth_first", "mavcg.model.model")),
    "row_parts": Subject(("mavcg.choose.lowering.row_phases", "mavcg.apps.buffers", "mavcg.accelerators.networks")),
    "row_times": _MODEL,
    "selection_boards": Subject(
        ("mavcg.choose.algorithms.select_network", "mavcg.choose.algorithms.strategies"), _ARM_FACTS
    ),
    "selection_kinds": Subject(
        ("mavcg.choose.algorithms.strategies", "mavcg.model.choose_algorithms", "bench.selection_kinds"),
        _ARM_FACTS,
    ),
    "selection_loops": Subject(("mavcg.kernels.primitives.registry", *_MACHINE_PASSES), _ARM_FACTS),
    "strategies": _MODEL,
    "simulated_choices": Subject(
        ("mavcg.lab.trials.simulated", "mavcg.choose.algorithms.costs.part_counts"),
        ("mavcg/lab/simulate/csrc/*", *_ARM_FACTS),
    ),
    "simulated_fits": Subject(
        ("mavcg.lab.trials.simulated", "mavcg.choose.algorithms.costs.part_counts"),
        ("mavcg/lab/simulate/csrc/*", *_ARM_FACTS),
    ),
    "simulated_sparse": Subject(
        (
            "mavcg.lab.trials.simulated",
            "mavcg.choose.algorithms.costs.part_counts",
            "mavcg.kernels.primitives.sparse.product",
        ),
        ("mavcg/lab/simulate/csrc/*", *_ARM_FACTS),
    ),
    "simulated_exposure": Subject(
        ("mavcg.choose.predict.exposure", "mavcg.model.model", "mavcg.lab.simulate.model_run"),
        ("mavcg/lab/simulate/csrc/*", *_ARM_FACTS),
    ),
    "simulated_layers": Subject(
        ("mavcg.choose.predict.predict", "mavcg.model.model", "mavcg.lab.simulate.model_run"),
        ("mavcg/lab/simulate/csrc/*", *_ARM_FACTS),
    ),
    "unsure_layers": Subject(
        ("mavcg.lab.simulate.simulated_layers", "mavcg.choose.predict.predict", "mavcg.model.model"),
        ("mavcg/lab/simulate/csrc/*", *_ARM_FACTS),
    ),
    "simulated_selections": Subject(
        ("mavcg.lab.runners.simulated_choices", "mavcg.choose.algorithms.costs.part_counts"),
        ("mavcg/lab/simulate/csrc/*", *_ARM_FACTS),
    ),
    "simulated_strategies": Subject(
        ("mavcg.choose.algorithms.select_model", "mavcg.model.model", "mavcg.lab.simulate.model_run"),
        ("mavcg/lab/simulate/csrc/*", *_ARM_FACTS),
    ),
    "simulated_bands": Subject(
        ("mavcg.choose.predict.depth_first", "mavcg.model.model", "mavcg.lab.simulate.model_run"),
        ("mavcg/lab/simulate/csrc/*", *_ARM_FACTS),
    ),
    "silicon": Subject(
        ("mavcg.passes.asm.models.estimate", "mavcg.passes.asm.models.main_loop", "mavcg.profiles.timing"),
        (*_ARM_FACTS, "profiles/cores/neoverse-*.toml", "profiles/cores/apple-*.toml", "bench/silicon/*.toml"),
    ),
    "silicon_simulated": Subject(
        ("mavcg.lab.simulate.simulation", "mavcg.profiles.timing"),
        (
            *_ARM_FACTS,
            "profiles/cores/neoverse-*.toml",
            "profiles/cores/apple-*.toml",
            "bench/silicon/*.toml",
            "mavcg/lab/simulate/csrc/*",
        ),
    ),
    "sparsity": Subject(("mavcg.kernels.primitives.sparse.family", "mavcg.kernels.primitives.registry")),
    "streaming": Subject(("mavcg.kernels.conv.matmul",), ("bench/streaming.c",)),
    "threads": _MODEL,
    "unequal_cores": Subject(("mavcg.runtime.model_build", "mavcg.choose.tiles.parts"), _ENGINE),
    "versions": Subject(_PROGRAM, _PROGRAMS),
    "winograd": Subject(("mavcg.kernels.primitives.registry", "mavcg.kernels.primitives.winograd.node_step")),
}

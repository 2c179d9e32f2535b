"""Measure what bench/results/ has, many hours, and write the pages of figures: `python -m bench.all`.

`make figures` measures the headline figures alone, in half an hour.
"""

import subprocess
import sys

from bench.pages import Pages, plan_of, write_pages
from bench.records import RESULTS, ROOT

# Timings first, while the machine is cool; counting disturbs nobody.
STEPS: tuple[tuple[str, ...], ...] = (
    ("-m", "bench.versions"),
    ("-m", "bench.dispatch", "--record"),
    ("-m", "bench.build_time"),
    ("-m", "bench.launch_cost", "--long"),
    ("-m", "bench.corpus"),
    ("-m", "bench.growth"),
    ("-m", "bench.machine_passes"),
    ("-m", "bench.ir_split"),
    ("-m", "bench.conv_layers"),
    ("-m", "bench.gemm_peers"),
    ("-m", "bench.blas_peers"),
    ("-m", "bench.peers"),
    ("-m", "bench.peers", "--precision", "bf16"),
    ("-m", "bench.threads"),
    ("-m", "bench.limits"),
    ("-m", "bench.streaming"),
    ("-m", "bench.handover"),
    ("-m", "bench.decoder"),
    ("-m", "bench.lengths"),
    ("-m", "bench.strategies"),
    ("-m", "bench.unequal_cores"),
    ("-m", "bench.predicted"),
    ("-m", "bench.planned_tiles"),
    ("-m", "bench.apps.three_networks"),
    ("-m", "bench.apps.served_deadlines"),
    ("-m", "bench.model_build"),
    ("-m", "bench.model_accuracy"),
    ("-m", "bench.survey"),
    ("-m", "bench.caffe_networks", "--record"),
    ("-m", "bench.half_photographs", "--record"),
    ("-m", "bench.onnx_node_tests"),
    ("-m", "bench.drop_in_survey"),
    ("-m", "bench.accelerators.plan_networks"),
    ("-m", "bench.accelerators.plan_tables"),
    ("-m", "bench.accelerators.plan_search"),
    ("-m", "bench.accelerators.plan_seconds", "--record"),
    ("-m", "bench.accelerators.plan_baselines"),
    ("-m", "bench.accelerators.gpu_baselines", "--record"),
    ("-m", "bench.accelerators.accel_fusion"),
    ("-m", "bench.accelerators.accel_accuracy"),
    ("-m", "bench.accelerators.accel_rtl"),
    ("-m", "bench.accelerators.accel_synthesis"),
    ("-m", "bench.pbqp"),
    ("-m", "bench.sparsity", "--record"),
    ("-m", "bench.selection_boards"),
    ("-m", "bench.selection_kinds", "--record"),
    ("-m", "bench.winograd"),
    ("-m", "bench.primitive_scenarios"),
    ("-m", "bench.fuzz_models", "--count", "10000"),
    ("-m", "bench.differential", "--count", "10000"),
    ("-m", "bench.chains", "--minutes", "30", "--record"),
    ("-m", "bench.lengths.random_graphs", "--count", "5000", "--record"),
)


def main() -> None:
    """Run each bench in a process of its own, so that no bench inherits CPU binding or libraries from another.

    A bench with bounds exits with a status other than 0 if it misses one. The other benches run all the same, and the
    failed ones are listed at the end.
    """
    failed = []
    for step in STEPS:
        print(f"bench: {' '.join(step)}", file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, *step], cwd=ROOT, stdout=subprocess.DEVNULL)
        if done.returncode:
            failed.append(f"{' '.join(step)} ended with status {done.returncode}")
    write_pages(Pages(plan_of(), RESULTS, ROOT), ROOT)
    if failed:
        sys.exit("bench: " + "\nbench: ".join(failed))


if __name__ == "__main__":
    main()

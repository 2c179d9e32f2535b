"""Models of a program's kernels on each cluster of a board, by the version that its cores run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.assembly.tuning_options import has_machine_passes
from mavcg.choose.predict.asm_blocks import BuiltLoop, built_loops
from mavcg.choose.predict.kernel_cycles import KernelModel, kernel_models
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.core_model import CoreModel
from mavcg.kernels.machines import machines_for
from mavcg.profiles.load import load_cores
from mavcg.specs.kernel import KernelSpec
from mavcg.specs.tile_plan import TilePlan
from mavcg.toolchain.target import Target

# Said of cores whose code a build reschedules.
TUNED = (
    "{}: loops as the compiler leaves them; a build makes them faster: estimate the built library to see by how much"
)


@dataclass(frozen=True)
class ProgramKernels:
    """Kernels of a program.

    names: a kernel's name in the program's steps and in the library -> kernel_name of its spec. library: where it is
    built; its loops count as the machine passes left them. workers: processes that compile kernels.
    """

    specs: Sequence[KernelSpec]
    names: Mapping[str, str]
    target: Target
    plan: TilePlan
    library: Path | None
    workers: int
    progress: Callable[[str], None]

    def on_clusters(
        self, clusters: Sequence[CoreModel], versions: Sequence[str], assumed: dict[str, None]
    ) -> list[dict[str, KernelModel]]:
        """Return the models on each cluster, by kernel name. assumed: gets the assumptions.

        versions: labels of the versions that the clusters' cores run.
        """
        cores = load_cores()
        machines = machines_for([cores[label] for label in dict.fromkeys(versions) if label in cores], self.target)
        known: dict[str, dict[str, KernelModel]] = {}
        by_cluster = []
        for cluster, version in zip(clusters, versions, strict=True):
            label = cluster.core.name if cluster.core is not None else GENERIC
            core = cluster.running(machines[version])
            assumed |= dict.fromkeys((*core.assumed, *core.assumed_rates))
            if version != label:
                assumed[f"{label}: the library has no version for it: it runs {version}'s"] = None
            if label not in known:
                built = self._built_loops(core)
                if built is None and self._is_tuned(core):
                    assumed[TUNED.format(label)] = None
                known[label] = kernel_models(
                    self.specs, core, self.target, self.workers, self.progress, built, self.plan
                )
            by_cluster.append(known[label])
        return by_cluster

    def _built_loops(self, core: CoreModel) -> dict[str, list[BuiltLoop]] | None:
        """Return the loops of the library's kernels, by the specs' kernel names; None if they are unknown."""
        if self.library is None or core.core is None or core.timing is None:
            return None
        loops = built_loops(self.library, core.core, list(self.names), core.timing)
        return {self.names[kernel]: kernel_loops for kernel, kernel_loops in loops.items()}

    @staticmethod
    def _is_tuned(core: CoreModel) -> bool:
        return core.core is not None and core.timing is not None and has_machine_passes(core.core)


def version_of(core: Core | None, available: Sequence[str] | None) -> str:
    """Return the label of the version that a core runs. available: versions of the library; None: every core's own."""
    if core is None:
        return GENERIC
    candidates = (core.name, *core.stand_ins)
    return next((name for name in candidates if name in available), GENERIC) if available is not None else core.name

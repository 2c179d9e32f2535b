"""Models of a program's kernels on each cluster of a board, by the version that its cores run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mavcg.assembly.tuning_options import has_machine_passes
from mavcg.choose.predict.asm_blocks import BuiltLoop, built_loops
from mavcg.choose.predict.kernel_cycles import KernelModel, KnownModels, kernel_models
from mavcg.hardware.core import GENERIC, Core
from mavcg.hardware.core_model import BoardModel, CoreModel
from mavcg.profiles.load import load_cores
from mavcg.runtime.machines import machines_for
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
    built; its loops count as the machine passes left them. workers: processes that compile kernels. models: of kernels
    on cores, from earlier predictions of the same model or library.
    """

    specs: Sequence[KernelSpec]
    names: Mapping[str, str]
    target: Target
    plan: TilePlan
    library: Path | None
    workers: int
    progress: Callable[[str], None]
    models: KnownModels | None = None

    def on_clusters(self, cores: Sequence[CoreModel], assumed: dict[str, None]) -> list[dict[str, KernelModel]]:
        """Return the models on each cluster, by kernel name. cores: one of each. assumed: gets the assumptions."""
        known: dict[str, dict[str, KernelModel]] = {}
        by_cluster = []
        for core in cores:
            label = core.core.name if core.core is not None else GENERIC
            assumed |= dict.fromkeys((*core.assumed, *core.assumed_rates))
            if core.label != label:
                assumed[f"{label}: the library has no version for it: it runs {core.label}'s"] = None
            if label not in known:
                built = self._built_loops(core)
                if built is None and self._is_tuned(core):
                    assumed[TUNED.format(label)] = None
                known[label] = kernel_models(
                    self.specs, core, self.target, self.workers, self.progress, built, self.plan, self.models
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


def running_cores(board: BoardModel, available: Sequence[str] | None) -> list[CoreModel]:
    """Return a core of each cluster as it runs a library. available: versions of the library; None: every core's own.

    A core without its own version runs a stand-in's, else the generic one.
    """
    versions = [version_of(core.core, available) for core in board.clusters]
    cores = load_cores()
    machines = machines_for([cores[label] for label in dict.fromkeys(versions) if label in cores], board.target)
    return [core.running(machines[version]) for core, version in zip(board.clusters, versions, strict=True)]


def version_of(core: Core | None, available: Sequence[str] | None) -> str:
    if core is None:
        return GENERIC
    candidates = (core.name, *core.stand_ins)
    return next((name for name in candidates if name in available), GENERIC) if available is not None else core.name

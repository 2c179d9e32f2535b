"""Run applications of several networks from Python: `mavcg.load_application("libapp.so")["detector"].run(x)`."""

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mavcg.errors import MavcgError
from mavcg.runtime.declared import ffi
from mavcg.runtime.library_tables import (
    ACCELERATED_API,
    SERVICE_API,
    application_table,
    check_status,
    close_library,
    open_library,
    text_of,
)
from mavcg.runtime.loading import Model, context_options, load, thread_count
from mavcg.runtime.pipeline import Pipeline
from mavcg.runtime.service import AcceleratedNetwork, PeriodicNetwork, ServedJob, serve_networks

StagePlaces = Mapping[str, Sequence[Collection[int]]]


class LoadedApplication:
    """The networks of a library in one memory; `load_application` creates it.

    name: name of the application. networks: names of the networks, in order. arena_bytes: size of all buffers.
    scratch_bytes: size for each thread. Networks that share memory cannot run at the same time: while one runs, run of
    another raises MavcgError.
    """

    def __init__(self, path: Path, threads: int, pin: bool, places: StagePlaces) -> None:
        self.path = path
        self._application = ffi.NULL
        self._pipelines: dict[int, Pipeline] = {}
        self._library, self._where = open_library(path)
        try:
            table = self._table = application_table(path, self._library)
            if table is None:
                raise MavcgError(f"{path}: is not an application's library; name one that `mavcg app build` made")
            created = ffi.new("void **")
            options = ffi.new("mavcg_options *", context_options(threads, pin))
            rows, _kept = _place_rows(path, table, places)
            status = table.create_placed(options, rows, len(rows), created)
            check_status(path, table.networks[0].model, status)
            self._application = created[0]
            self.name = text_of(table.name)
            self.arena_bytes, self.scratch_bytes = int(table.arena_bytes), int(table.scratch_bytes)
            models = (
                Model.of_context(path, table.networks[i].model, table.context(self._application, i))
                for i in range(table.network_count)
            )
            self._models = {model.name: model for model in models}
        except BaseException:
            self._end()
            raise

    @property
    def networks(self) -> tuple[str, ...]:
        """Return the names of the networks."""
        return tuple(self._models)

    def __getitem__(self, network: str) -> Model:
        """Return a network, which has the arrays and functions of mavcg.Model."""
        if network not in self._models:
            raise MavcgError(f"{self.path}: has no network {network!r}; there are {', '.join(self._models)}")
        return self._models[network]

    def stages(self, network: str) -> int:
        """Return the number of stages of a network; 0 for one that is not a pipeline."""
        self[network]
        return int(self._table.networks[self.networks.index(network)].stage_count)

    def pipeline(self, network: str) -> Pipeline:
        """Return the frame API of a network that was built with partitions. Raises: MavcgError for another network."""
        model = self[network]
        number = self.networks.index(network)
        stages = self.stages(network)
        if not stages:
            raise MavcgError(
                f"{self.path}: network {network!r} is not a pipeline; build it with partitions, or call its run"
            )
        if number not in self._pipelines:
            self._pipelines[number] = Pipeline(model, self._table, self._application, number, stages)
        return self._pipelines[number]

    def serve(
        self, networks: Sequence[PeriodicNetwork], seconds: float, accelerated: Sequence[AcceleratedNetwork] = ()
    ) -> tuple[ServedJob, ...]:
        """Run networks as periodic jobs under fixed priorities, and return the jobs in the order of their ends.

        Between two steps of a preemptible network, more urgent jobs run before it continues; a job that has not begun
        at its deadline is skipped. seconds: jobs that are released within them are run. accelerated: networks beside
        those of the library, whose segments accelerators compute while others run. Raises: MavcgError as Model.run, for
        a library of an earlier mavcg, for equal names or priorities, for networks of which one may preempt another that
        shares its memory, and for a device that stops.
        """
        for own in networks:
            self[own.name]
        if self._table.api < (ACCELERATED_API if accelerated else SERVICE_API):
            raise MavcgError(f"{self.path}: was built by an earlier mavcg, without services; build it again")
        return serve_networks(
            self.path, self._table, self._application, self._models, networks, accelerated, max(1, round(seconds * 1e9))
        )

    def close(self) -> None:
        """Free the memory, after runs of other threads have ended. A second call does nothing."""
        for pipeline in self._pipelines.values():
            pipeline.close()
        for model in self._models.values():
            model.close()
        self._end()

    def __enter__(self) -> "LoadedApplication":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_application", None):
            with contextlib.suppress(Exception):  # the interpreter may be half gone
                self.close()

    def _end(self) -> None:
        if self._application:
            self._table.destroy(self._application)
            self._application = ffi.NULL
        if self._where:
            self._table = None
            close_library(self._library, self._where)
            self._where = ""


def load_application(
    path: str | os.PathLike[str], threads: int | str = 1, pin: bool = False, stages: StagePlaces | None = None
) -> LoadedApplication:
    """Create the memory and the contexts of a library that `mavcg app build` made.

    threads, pin: as in `load`. stages: the CPUs of each stage of a pipeline, by the network's name, such as
    {"backbone": [{0, 1}, {2, 3}]}, with a thread for each CPU. Without it, the CPUs that the build predicted are used
    if this process may use them, else equal parts of the CPUs.
    Raises: MavcgError for a file that is not such a library for this machine, and as `load`.
    """
    return LoadedApplication(Path(path), thread_count(threads), pin, stages or {})


def _place_rows(path: Path, table: Any, places: StagePlaces) -> tuple[Any, list[Any]]:
    """Return an array of mavcg_stage_place, and the objects that must live as long as it is used."""
    names = [text_of(table.networks[i].model.name) for i in range(table.network_count)]
    rows, kept = [], []
    for network, stages in places.items():
        if network not in names:
            raise MavcgError(f"{path}: stages: has no network {network!r}; there are {', '.join(names)}")
        number = names.index(network)
        if len(stages) != table.networks[number].stage_count:
            raise MavcgError(
                f"{path}: stages: {len(stages)} sets of CPUs for {network!r}, which has "
                f"{table.networks[number].stage_count} stages; give one set for each"
            )
        for stage, cpus in enumerate(stages):
            if not cpus or not all(isinstance(cpu, int) and 0 <= cpu < 8192 for cpu in cpus):
                raise MavcgError(
                    f"{path}: stages: {network!r}, stage {stage}: {cpus!r} is not a list of CPU numbers; give numbers"
                )
            kept.append(ffi.new("uint16_t[]", sorted(cpus)))
            rows.append({"network": number, "stage": stage, "cpu_count": len(cpus), "cpus": kept[-1]})
    return ffi.new("mavcg_stage_place[]", rows), kept


@contextlib.contextmanager
def open_network(path: Path, network: str | None, threads: int | str) -> Iterator[Model]:
    """Load a model library, or an application and return one of its networks.

    Raises: MavcgError if `network` is missing for an application, or given for a model library, and as `load`.
    """
    if network is None:
        with load(path, threads=threads) as model:
            yield model
        return
    if not is_application(path):
        load(path, network=network).close()  # raises
    with load_application(path, threads=threads) as application:
        yield application[network]


def is_application(path: Path) -> bool:
    """Return True if the file is an application's library. Raises: MavcgError for a file that cannot be loaded."""
    library, where = open_library(path)
    try:
        return application_table(path, library) is not None
    finally:
        close_library(library, where)

"""Networks that precision = "int8" converts: their files in 8 bits, by the samples that app.toml names."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mavcg.apps.application_file import ApplicationFile, NetworkEntry
from mavcg.errors import MavcgError
from mavcg.files.scratch import scratch_folder


@contextmanager
def quantised_files(file: ApplicationFile, arch: str, progress: Callable[[str], None]) -> Iterator[ApplicationFile]:
    """Yield the application with a file in 8 bits in place of each network's that has samples; removed afterwards.

    arch: of the machine, on which the types of 8 bits depend. Raises: MavcgError with the network's line for a network
    that cannot be quantised.
    """
    if not any(entry.samples for entry in file.networks):
        yield file
        return
    with scratch_folder("mavcg-int8-") as folder:
        networks = []
        for number, entry in enumerate(file.networks):
            own = Path(folder) / str(number)
            own.mkdir()
            if entry.samples is not None:
                progress(f"{entry.name}: quantising")
                entry = _quantise_entry(entry, entry.samples, arch, own, f"{file.path}: line {entry.line}")
            networks.append(entry)
        yield replace(file, networks=tuple(networks))


def _quantise_entry(entry: NetworkEntry, samples: Path, arch: str, folder: Path, location: str) -> NetworkEntry:
    from mavcg.model.quantise.whole_model import quantise_whole

    try:
        place = "samples"
        made = quantise_whole(entry.file, samples, entry.shapes, arch == "x86_64", folder, place)
    except MavcgError as error:
        raise type(error)(f"{location}: network '{entry.name}': {error}") from error
    path = folder / entry.file.name
    path.write_bytes(made.content)
    quantised = {
        "precision": "int8",
        "layers": made.layers,
        "layers_of_floats": made.layers_of_floats,
        "samples": made.samples,
        "measured_error": made.error,
    }
    return replace(entry, file=path, quantised=quantised)

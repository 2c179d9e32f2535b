"""The verb `mavcg run`: run a model library on inputs from files, its outputs into files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.cli.output import console, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.runtime.loading import Model


def run(
    library: Annotated[
        Path, typer.Argument(metavar="LIB.so", help="A model library that mavcg built for this machine.")
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="[NAME=]X.npy|X.npz", help="An input; in order, or by name; may be repeated."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT.npz", help="File for the outputs, by name.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random normal inputs from this seed instead of files.")] = None,
    network: Annotated[
        str | None, typer.Option(metavar="N", help="For an application's library: the network to run.")
    ] = None,
    threads: Annotated[
        str, typer.Option(metavar="N|auto", help="Threads; auto, or 0: the library chooses, or takes one for each CPU.")
    ] = "1",
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary of the outputs as JSON.")] = False,
) -> None:
    """Run a model library once and show its outputs: shape, range, and the five largest elements.

    \b
    mavcg run libmobilenet_v2.so --input x.npy -o y.npz
    mavcg run libface.so --input image=x.npy --json
    mavcg run libmobilenet_v2.so --seed 0
    mavcg run libapp.so --network detector --input image=x.npy
    """
    if seed is not None and (seed < 0 or inputs):
        why = "makes all inputs; leave --input out" if inputs else "is no seed; give 0 or more"
        raise MavcgError(f"--seed {seed}: {why}")
    import numpy as np

    from mavcg.runtime.application import open_network
    from mavcg.runtime.loading import thread_count

    try:
        thread_count(threads)
    except MavcgError as error:
        raise MavcgError(f"--{error}") from None
    with open_network(library, network, threads) as model:
        arrays = random_inputs(model, seed) if seed is not None else _inputs_from_files(model, inputs or [])
        results = model.run(*arrays)
    names = [tensor.name for tensor in model.outputs]
    if output is not None:
        write_arrays(output, dict(zip(names, results, strict=True)))
    summary = [summary_of(name, np.asarray(array)) for name, array in zip(names, results, strict=True)]
    if as_json:
        print_json({"outputs": summary, "written": str(output) if output else None})
        return
    for entry in summary:
        top = ", ".join(f"[{index}] {value:g}" for index, value in zip(entry["top_index"], entry["top"], strict=True))
        console().print(
            f"{entry['name']} {entry['dtype']}{entry['shape']}: {entry['min']:g} to {entry['max']:g}; largest {top}"
        )


def _inputs_from_files(model: "Model", given: list[str]) -> list[Any]:
    from mavcg.cli.input_arrays import read_input_arrays

    return read_input_arrays([tensor.name for tensor in model.inputs], given, ", or --seed 0 for random ones")


def random_inputs(model: "Model", seed: int) -> list[Any]:
    """Return normal random numbers from a seed, in the order of the inputs; integers from -128 to 127, as far as they
    fit.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    arrays = []
    for tensor in model.inputs:
        values = rng.standard_normal(tensor.shape)
        if tensor.dtype.kind in "iu":
            info = np.iinfo(tensor.dtype)
            values = np.clip(
                np.round(values * 40 + (128 if info.min == 0 else 0)), max(info.min, -128), min(info.max, 255)
            )
        arrays.append(values.astype(np.float32).astype(tensor.dtype))
    return arrays


def write_arrays(output: Path, arrays: dict[str, Any]) -> None:
    """Write arrays by name as a .npz file, whole or not at all. Raises: MavcgError naming -o."""
    import numpy as np

    from mavcg.files.disk_space import with_room
    from mavcg.files.whole_file import whole

    if not output.parent.is_dir():
        raise MavcgError(f"-o {output}: the folder {output.parent} is not there; make it, or name another output")
    try:
        with whole(output) as made, made.open("wb") as file:
            np.savez(file, **arrays)
    except OSError as error:
        reason = with_room(error, output, sum(array.nbytes for array in arrays.values()))
        raise MavcgError(f"-o {output}: cannot be written ({reason}); name another file") from error


def summary_of(name: str, array: Any) -> dict[str, Any]:
    """Return shape, range and the five largest elements of an output, as JSON has them."""
    import numpy as np

    flat = array.reshape(-1)
    order = np.argsort(-flat.astype(np.float64), kind="stable")[:5]
    return {
        "name": name,
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "min": float(flat.min()) if flat.size else 0.0,
        "max": float(flat.max()) if flat.size else 0.0,
        "top_index": [int(i) for i in order],
        "top": [float(flat[i]) for i in order],
    }

"""The verb `mavcg run`: run a model library on inputs from files, and write its outputs to a file."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import console, print_json
from mavcg.console.shared_options import InputFiles, InputSeed, JsonOutputs, ModelLibrary, OutputsFile
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.runtime.loading import Model


@dataclass(frozen=True)
class RunOptions:
    """The command line of `mavcg run`."""

    library: ModelLibrary
    inputs: InputFiles = None
    output: OutputsFile = None
    seed: InputSeed = None
    network: Annotated[
        str | None, typer.Option(metavar="N", help="For the library of an application: the network to run.")
    ] = None
    threads: Annotated[
        str,
        typer.Option(
            metavar="N|auto",
            help="Number of threads; auto or 0: the number that the library was planned for, else one for each CPU; "
            "default 1.",
        ),
    ] = "1"
    as_json: JsonOutputs = False


def run_library(options: RunOptions) -> None:
    """Run a model library once and print the shape, the range and the five largest elements of each output.

    \b
    mavcg run libmobilenet_v2.so --input x.npy -o y.npz
    mavcg run libface.so --input image=x.npy --json
    mavcg run libmobilenet_v2.so --seed 0
    mavcg run libapp.so --network detector --input image=x.npy
    """
    if options.seed is not None and (options.seed < 0 or options.inputs):
        fault = "makes all inputs; leave --input out" if options.inputs else "is not a seed; give 0 or more"
        raise MavcgError(f"--seed {options.seed}: {fault}")
    import numpy as np

    from mavcg.console.arrays import summary_of, write_arrays
    from mavcg.runtime.application import open_network
    from mavcg.runtime.loading import thread_count
    from mavcg.runtime.random_inputs import random_inputs

    try:
        thread_count(options.threads)
    except MavcgError as error:
        raise MavcgError(f"--{error}") from None
    with open_network(options.library, options.network, options.threads) as model:
        arrays = (
            random_inputs(model, options.seed)
            if options.seed is not None
            else _inputs_from_files(model, options.inputs or [])
        )
        results = model.run(*arrays)
    names = [tensor.name for tensor in model.outputs]
    if options.output is not None:
        write_arrays(options.output, dict(zip(names, results, strict=True)))
    summary = [summary_of(name, np.asarray(array)) for name, array in zip(names, results, strict=True)]
    if options.as_json:
        print_json({"outputs": summary, "written": str(options.output) if options.output else None})
        return
    for entry in summary:
        top = ", ".join(f"[{index}] {value:g}" for index, value in zip(entry["top_index"], entry["top"], strict=True))
        console().print(
            f"{entry['name']} {entry['dtype']}{entry['shape']}: {entry['min']:g} to {entry['max']:g}; largest {top}"
        )


run = command_of("run", RunOptions, run_library)


def _inputs_from_files(model: "Model", files: list[str]) -> list[Any]:
    """Read the inputs of a model from files. files: values of --input."""
    from mavcg.console.arrays import read_input_arrays

    return read_input_arrays([tensor.name for tensor in model.inputs], files, ", or --seed 0 for random inputs")

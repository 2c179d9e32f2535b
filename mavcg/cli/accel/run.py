"""The verb `mavcg accel run`: a program in the functional simulator, with its CPU parts where they can run here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.cli.output import console, note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.accel.image.program import AccelProgram


def run(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM.elf", help="A program of `mavcg accel build`.")],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="[NAME=]X.npy|X.npz", help="An input; in order, or by name; may be repeated."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="OUT.npz", help="File for the outputs, by name.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random normal inputs from this seed instead of files.")] = None,
    integers: Annotated[
        bool, typer.Option("--integers", help="Outputs as the int8 that the accelerator writes.")
    ] = False,
    driver: Annotated[
        str | None, typer.Option(metavar="LIB.so[:ARGUMENT]", help="Run on the device of this driver.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary of the outputs as JSON.")] = False,
) -> None:
    """Run a program in the functional simulator, on the bytes of the accelerator's memories.

    Where the libraries of the CPU parts lie beside the program and are for this machine, the whole network is run by
    the C host side, as a driver would; its outputs are the model's. Otherwise outputs are the tensors that leave the
    accelerator, [1, H, W, C], as real numbers: integer * 2^-radix.

    Inputs are real numbers in the model's order of dimensions, or int8 as [1, H, W, C].

    \b
    mavcg accel run resnet50.elf --input x.npy -o y.npz
    mavcg accel run resnet50.elf --seed 0 --json
    mavcg accel run resnet50.elf --input x.npy --driver ./libdevice.so:/dev/accel0 -o y.npz
    """
    if seed is not None and (seed < 0 or inputs):
        why = "makes all inputs; leave --input out" if inputs else "is no seed; give 0 or more"
        raise MavcgError(f"--seed {seed}: {why}")
    from mavcg.accel.host.runtime import missing_part
    from mavcg.accel.image.elf_file import read_elf
    from mavcg.cli.run import summary_of, write_arrays

    image = read_elf(program)
    missing = missing_part(image, program) if image.cpu_nodes else ""
    if driver is not None and (missing or integers):
        raise MavcgError(f"--driver {driver}: runs whole networks; {missing or 'leave --integers out'}")
    whole = driver is not None or (bool(image.cpu_nodes) and not missing and not integers)
    if missing:
        note(f"left to the CPU, not computed ({len(image.cpu_nodes)}): {', '.join(image.cpu_nodes[:6])}: {missing}")
    elif image.cpu_nodes and integers:
        note(f"--integers: of what the accelerator writes; the CPU's {len(image.cpu_nodes)} nodes are not computed")
    shown = (
        _run_whole(image, program, inputs, seed, driver) if whole else _run_accelerator(image, inputs, seed, integers)
    )
    if output is not None:
        write_arrays(output, shown)
    summary = [summary_of(name, array) for name, array in shown.items()]
    if as_json:
        computed = "network" if whole or not image.cpu_nodes else "accelerator"
        print_json({"computed": computed, "outputs": summary, "written": str(output) if output else None})
        return
    for entry in summary:
        console().print(f"{entry['name']} {entry['dtype']}{entry['shape']}: {entry['min']:g} to {entry['max']:g}")


def _run_whole(
    image: "AccelProgram", path: Path, inputs: list[str] | None, seed: int | None, driver: str | None
) -> dict[str, Any]:
    from mavcg.accel.host.runtime import DeviceDriver, DeviceProgram
    from mavcg.accel.images import network_inputs

    tensors = [image.host.tensor(name) for name in image.host.inputs]
    names = [tensor.name for tensor in tensors]
    given = _random({t.name: t.dims for t in tensors}, seed) if seed is not None else _arrays(names, inputs or [])
    with DeviceProgram(path, driver=None if driver is None else DeviceDriver.of(driver)) as device:
        return device.run(network_inputs(given, tensors))


def _run_accelerator(
    image: "AccelProgram", inputs: list[str] | None, seed: int | None, integers: bool
) -> dict[str, Any]:
    from mavcg.accel.fixed_point import to_reals
    from mavcg.accel.images import read_inputs
    from mavcg.accel.simulator.functional import execute

    tensors = {name: image.tensor(name) for name in image.inputs}
    shapes = {name: (1, t.height, t.width, t.channels) for name, t in tensors.items()}
    given = _random(shapes, seed) if seed is not None else _arrays(image.inputs, inputs or [])
    ready = read_inputs(
        given, {name: (t.height, t.width, t.channels) for name, t in tensors.items()}, image.nchw,
        {name: t.radix for name, t in tensors.items()},
    )  # fmt: skip
    results = execute(image, ready)
    return {name: array if integers else to_reals(array, image.tensor(name).radix) for name, array in results.items()}


def _random(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, Any]:
    import numpy as np

    numbers = np.random.default_rng(seed)
    return {name: numbers.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def _arrays(names: Sequence[str], given: list[str]) -> dict[str, Any]:
    """Read arrays by the program's inputs. Raises: MavcgError naming the option."""
    import numpy as np

    found: dict[str, Any] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not equals or (name not in names and Path(text).exists()):
            name, file = "", text
        try:
            loaded = np.load(file, allow_pickle=False)
            arrays = {key: loaded[key] for key in loaded.files} if hasattr(loaded, "files") else {name: loaded}
        except (OSError, ValueError, EOFError) as error:
            raise MavcgError(f"--input {text}: no array could be read ({error}); give a .npy or .npz file") from error
        for key, array in arrays.items():
            free = [n for n in names if n not in found]
            own = key if key else (free[0] if free else "")
            if own not in free:
                raise MavcgError(
                    f"--input {text}: the program has no such free input; its inputs are {', '.join(names)}"
                )
            found[own] = array
    return found

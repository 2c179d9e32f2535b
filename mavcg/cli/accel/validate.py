"""The verb `mavcg accel validate`: a program against the fixed-point reference."""

from pathlib import Path
from typing import Annotated

import typer

from mavcg.cli.output import Progress, console, print_json


def validate(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM.elf", help="A program of `mavcg accel build`.")],
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="The model that it was built from: a file, or a built-in network.")
    ],
    seed: Annotated[int, typer.Option(min=0, help="Of the random inputs.")] = 0,
    shape: Annotated[
        list[str] | None, typer.Option(metavar="NAME=1x3x224x224", help="Shape of an input with free dimensions.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Check that a program computes the right bits: every tile of every layer, against the fixed-point reference.

    The reference is computed from the model, at the radix positions in the program's file. Exit status 1 where any
    element differs.

    \b
    mavcg accel validate resnet50.elf --model resnet50.onnx
    mavcg accel validate resnet50.elf --model resnet50.onnx --seed 7 --json
    """
    from mavcg.accel.apply_radices import with_radices
    from mavcg.accel.image.elf_file import read_elf
    from mavcg.accel.images import seeded_images
    from mavcg.accel.load import load_xgraph
    from mavcg.accel.validate import validate_program
    from mavcg.model_pipeline.sizes import parse_shapes

    with Progress() as progress:
        image = read_elf(program)
        progress(f"import {model}")
        real = load_xgraph(model, image.target, parse_shapes(shape or ()))
        graph = with_radices(real, image.radices, str(program))
        progress("reference and execution")
        found = validate_program(image, graph, seeded_images(graph, 1, seed)[0])
    if as_json:
        different = [{"node": d.node, "elements": d.elements, "first": d.first} for d in found.differences]
        print_json({"layers": found.layers, "mismatches": len(found.differences), "different": different})
    else:
        out = console()
        for one in found.differences:
            out.print(f"{one.node}: {one.elements} elements differ, the first at {one.first}")
        out.print(f"{program}: {found.layers} layers compared, {len(found.differences)} differ")
    if found.differences:
        raise typer.Exit(1)

"""The verb `mavcg accel validate`: compare a program's results with the fixed-point reference."""

from typing import Annotated

import typer

from mavcg.console.output import Progress, console, print_json
from mavcg.console.shared_options import AccelProgramFile, IgnoreDeclaredShapes, InputShapes, MostOperations


def validate(
    program: AccelProgramFile,
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="The model that it was built from: a file, or a built-in network.")
    ],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random inputs; default 0.")] = 0,
    shape: InputShapes = None,
    ignore_declared_shapes: IgnoreDeclaredShapes = False,
    max_operations: MostOperations = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Check that a program computes the right bits: each tile of each layer is compared with the fixed-point reference.

    The reference is computed from the model, with the radix positions in the program's file or the scales of an
    8-bit model's. The exit status is 1 if an element differs.

    \b
    mavcg accel validate resnet50.elf --model resnet50.onnx
    mavcg accel validate resnet50.elf --model resnet50.onnx --seed 7 --json
    """
    from mavcg.accelerators.host.library import MOST_OPERATIONS
    from mavcg.accelerators.image.elf_file import read_elf
    from mavcg.accelerators.images import seeded_images
    from mavcg.accelerators.load import load_xgraph
    from mavcg.accelerators.quantise import with_radices
    from mavcg.accelerators.validate import validate_program
    from mavcg.model.sizes import parse_shapes

    with Progress() as progress:
        image = read_elf(program)
        progress(f"import {model}")
        shapes = parse_shapes(shape or (), ignore_declared_shapes)
        real = load_xgraph(model, image.target, shapes, file_scales=image.has_file_scales)
        graph = real if image.has_file_scales else with_radices(real, image.radices, str(program))
        progress("reference and execution")
        most = max_operations or MOST_OPERATIONS
        result = validate_program(image, graph, seeded_images(graph, 1, seed)[0], most)
    if as_json:
        different = [{"node": d.node, "elements": d.elements, "first": d.first} for d in result.differences]
        print_json({"layers": result.layers, "mismatches": len(result.differences), "different": different})
    else:
        out = console()
        for difference in result.differences:
            out.print(f"{difference.node}: {difference.elements} elements differ, the first at {difference.first}")
        out.print(f"{program}: {result.layers} layers compared, {len(result.differences)} differ")
    if result.differences:
        raise typer.Exit(1)

"""Options that several verbs declare, as annotated types for typer, and readers of values: paths, lists of names."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from mavcg.errors import MavcgError

# --json, by what is printed.
JsonEverything: TypeAlias = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
JsonReport: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
JsonSame: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the same as JSON.")]
JsonDocument: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the same as a JSON document.")]
JsonWritten: TypeAlias = Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")]
JsonOutputs: TypeAlias = Annotated[bool, typer.Option("--json", help="Print a summary of the outputs as JSON.")]

# Networks and their weights, shapes and inputs.
OptionalNetwork: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL", help="An .onnx, .tflite or .prototxt file, or vgg16, resnet50, alexnet, squeezenet, yolov2."
    ),
]
ModelShapes: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=1x3x224x224", help="Shape of a model's input whose dimensions are free."),
]
InputShapes: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="NAME=1x3x224x224", help="Shape of an input whose dimensions are free.")
]
IgnoreDeclaredShapes: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--ignore-declared-shapes",
        help="Take a model although shapes that its file declares contradict those that follow from its operators.",
    ),
]
CaffeWeights: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Weights of a .prototxt; default: the .caffemodel of the same name beside it."),
]
ModelLibrary: TypeAlias = Annotated[
    Path, typer.Argument(metavar="LIB.so", help="A model library that mavcg built for this machine.")
]
InputFiles: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--input", metavar="[NAME=]X.npy|X.npz", help="File of an input, by name or in order; may be repeated."
    ),
]
InputSeed: TypeAlias = Annotated[
    int | None, typer.Option(help="Use random inputs from this seed, normally distributed, instead of files.")
]
OutputsFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="OUT.npz", help="File to write the outputs to, by name; default: none."),
]

# Builds.
Jobs: TypeAlias = Annotated[
    int | None, typer.Option("-j", "--jobs", min=1, help="Number of compilers at a time; default: one for each CPU.")
]
Strip: TypeAlias = Annotated[bool, typer.Option("--strip", help="Leave out local symbols and debug information.")]
MaxMemory: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES|GB", help="Most memory that the build's processes may take; default: 80 % of the machine's."
    ),
]

# Models of cores, and perf.
Latencies: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="A->B=N",
        help="Assume this latency from one instruction class to another, in cycles, such as "
        '"ldr_x->ins=3" or "fmla_q->fmla_q.acc=2"; may be repeated.',
    ),
]
SampleFrequency: TypeAlias = Annotated[
    int | None, typer.Option(metavar="HZ", min=1, help="Samples per second and thread; default 1999.")
]
SampleEvent: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="EVENT",
        help="Event that perf samples; default: cycles, or cpu-clock if there are no hardware counters.",
    ),
]

# Libraries of several networks.
AppThreads: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="N|auto",
        help="Number of threads of a context; auto: the number that is predicted to be fastest; default 1.",
    ),
]
AppMaxError: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="E", help="Largest error of f32 operators, relative to the largest sum in them; default 1e-4."
    ),
]
AppStrategy: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="S", help="How primitives and layouts are chosen, as in `mavcg build`; default pbqp with a board."
    ),
]

# Accelerators.
AccelTarget: TypeAlias = Annotated[
    str, typer.Option(metavar="T", help="The accelerator: a name of `mavcg accel targets`, or a TOML file.")
]
AccelProgramFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="PROGRAM.elf", help="A program of `mavcg accel build`.")
]
MostOperations: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--max-operations", metavar="N", min=1, help="Operations that each segment may take; default 68719476736."
    ),
]
AccelProgramOutput: TypeAlias = Annotated[
    Path, typer.Option("-o", "--output", metavar="OUT.elf", help="ELF file to write.")
]
CostDatabase: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="SQLite file that keeps simulated and measured costs.")
]
DeviceDriver: TypeAlias = Annotated[
    str | None, typer.Option(metavar="LIB.so[:ARGUMENT]", help="With --costs device: the device's driver.")
]

# Farms of several machines.
Insecure: TypeAlias = Annotated[
    bool,
    typer.Option("--insecure", help="Allow plain TCP beyond this machine: without encryption, and without a token."),
]


def path_from_here(name: str | None) -> str | None:
    """Return an option's path as an absolute one, so that it is not read as relative to the build file's folder."""
    return str(Path(name).absolute()) if name is not None else None


def input_from_here(option: str) -> str:
    """Return a link option with an absolute path if it names an archive or object."""
    return option if option.startswith("-") else str(Path(option).absolute())


def paths_from_here(names: list[str] | None) -> tuple[str, ...]:
    return tuple(str(Path(name).absolute()) for name in names or ())


def names_of_option(text: str | None) -> tuple[str, ...]:
    """Split the value of --cores at commas; () for None. Raises: MavcgError for an empty name."""
    if text is None:
        return ()
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise MavcgError(
            f"--cores {text!r}: has an empty name; give names with commas between them (`mavcg cores` lists them)"
        )
    return tuple(names)

"""The options of `mavcg build`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from mavcg.console.shared_options import (
    IgnoreDeclaredShapes,
    Insecure,
    Jobs,
    JsonReport,
    MaxMemory,
    Strip,
)


@dataclass(frozen=True)
class BuildOptions:
    """The command line of `mavcg build`; None, False or an empty list for an option that was not given."""

    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[mavcg.toml|MODEL..]",
            help="A build file (default: ./mavcg.toml, if there is one) or a model's .onnx, .tflite or .prototxt file; "
            "several models with --boards.",
        ),
    ] = None
    source: Annotated[
        list[str] | None,
        typer.Option(help="C, C++ or assembly source file, or a pattern such as 'src/*.c'; may be repeated."),
    ] = None
    ir: Annotated[list[str] | None, typer.Option(help="File of LLVM IR, as bitcode or text; may be repeated.")] = None
    compile_commands: Annotated[
        str | None, typer.Option(metavar="FILE", help="Build the sources that this compile_commands.json lists.")
    ] = None
    only_hot: Annotated[
        bool, typer.Option("--only-hot", help="With --compile-commands: build only the files that hold hot functions.")
    ] = False
    query_driver: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GLOB,..",
            help="With --compile-commands: patterns of further compilers that it may name, beside those of the system "
            "and of PATH; mavcg runs them to find their headers.",
        ),
    ] = None
    flag: Annotated[
        list[str] | None, typer.Option(help="Compiler flag for --source, such as --flag=-Iinclude; may be repeated.")
    ] = None
    compiler: Annotated[str | None, typer.Option(help="The clang to use; default: the one in ziglang.")] = None
    hot: Annotated[
        str | None,
        typer.Option(metavar="FUNCTION,..", help="Functions that get versions, by name or pattern, with commas."),
    ] = None
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Profile whose hot functions get versions; default: the one that `mavcg profile` kept here.",
        ),
    ] = None
    threshold: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", help="Least share of the run's time that makes a function hot; default 5."),
    ] = None
    max_functions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Largest number of functions that get versions; default all.")
    ] = None
    cores: Annotated[
        str | None,
        typer.Option(metavar="A,B,..", help="Core types that get a version each, such as cortex-a55,cortex-a75."),
    ] = None
    board: Annotated[
        str | None,
        typer.Option(help="Board whose core types get a version each; `mavcg cores` lists boards, `host` is this one."),
    ] = None
    boards: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,..",
            help="Build a library of each model for each of these boards, in folders OUT/BOARD; kernels that they "
            "share are compiled once and kept for later builds.",
        ),
    ] = None
    workers: Annotated[
        str | None,
        typer.Option(
            metavar="N|ADDRESS",
            help="With --boards: number of processes that build (0: none but this one), or the address of a scheduler "
            "of `mavcg farm serve`, tls://HOST:8786; default: a process for each CPU.",
        ),
    ] = None
    insecure: Insecure = False
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TRIPLE",
            help="System to build for, such as aarch64-linux-gnu.2.17 (the default for Arm cores).",
        ),
    ] = None
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT.so",
            help="The library (.so; .dylib for macOS) object (.o) or bitcode (.bc) to write; with --boards a folder.",
        ),
    ] = None
    measurements: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Gains of versions that `mavcg measure -o` measured; slow versions go."),
    ] = None
    min_gain: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", help="Drop versions whose known gain is smaller than this; default 1."),
    ] = None
    versions: Annotated[
        str | None,
        typer.Option(
            metavar="one|modelled|all",
            help="Versions of each core, for machines that hide some of its extensions: one; further ones where a "
            "gain is predicted (the default); all: of programs also with SVE, which no model knows.",
        ),
    ] = None
    keep_slower: Annotated[
        bool,
        typer.Option(
            "--keep-slower",
            help="Keep versions that gain nothing over generic by the core's model, and slower ones.",
        ),
    ] = False
    max_growth: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="Largest growth of a file's code by versions; those that gain least per byte go first. Default 100, "
            "and 16384 bytes in a smaller file.",
        ),
    ] = None
    rounding: Annotated[
        str | None,
        typer.Option(
            metavar="exact|per-core",
            help="exact: every version gives the same bits (the default); per-core: code compiled with fast-math may "
            "round differently on each core.",
        ),
    ] = None
    tune: Annotated[
        str | None,
        typer.Option(
            metavar="off|fast|best",
            help="Effort spent on rescheduling loops for cores that gain from it; default fast.",
        ),
    ] = None
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=1x3x224x224",
            help="Shape of a model's input whose dimensions are free. 1x1..512x384: one library for any length of 1 to "
            "512 (docs/lengths.md); 1x3x32..512:32x..: for multiples of 32; 1,4x3x..: several sizes in one library.",
        ),
    ] = None
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INPUT=OUTPUT",
            help="Tensor of a model that stays in the context from one run to the next, such as past_*=present_*.",
        ),
    ] = None
    ignore_declared_shapes: IgnoreDeclaredShapes = False
    weights: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|f16|bf16",
            help="A file: weights of a .prototxt; default: the .caffemodel of the same name beside it. f16 or bf16: "
            "weights of layers that wait for memory, such as fully connected ones, lie in half precision, where that "
            "is predicted to save time; arithmetic stays as --precision says. May be given for both.",
        ),
    ] = None
    threads: Annotated[
        str | None,
        typer.Option(
            metavar="N|auto",
            help="Number of threads of a model library; auto: the number that is predicted to be fastest; default 1.",
        ),
    ] = None
    max_error: Annotated[
        float | None,
        typer.Option(
            metavar="E",
            help="Largest error of a model's operators, relative to the largest sum in them; default 1e-4, with "
            "--precision f16 0.06.",
        ),
    ] = None
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="f32|f16|bf16|auto",
            help="Arithmetic of a model's floats; f16: every layer in half precision that has kernels for it, on cores "
            "with FEAT_FP16 or AVX512-FP16; bf16: every layer in bf16, with sums in f32, on any core; auto: as many "
            "layers in f16 as keep --max-error, then the limit of the whole model's measured error, default 0.01; "
            "inputs and outputs keep their types; default f32.",
        ),
    ] = None
    calibrate: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|seed:N",
            help="Inputs on which --precision measures errors: .npz files of a folder, each with an array for every "
            "input by name (.npy files for models with one input), of which the first 16 are taken; or random numbers "
            "from a seed; default seed:0.",
        ),
    ] = None
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help="How primitives and layouts of a model's convolutions are chosen: pbqp (the optimum; the default with "
            "a --board), local, sum2d or family:NAME as in `mavcg select`, or engine (all in HWC, by implicit GEMM and "
            "Winograd only; the default without a board).",
        ),
    ] = None
    db: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Database of costs from `mavcg tune`, for --strategy; default: this user's."),
    ] = None
    simulate_unsure: Annotated[
        bool,
        typer.Option(
            "--simulate-unsure",
            help="For --strategy on an AArch64 board: first simulate the primitives among which the model cannot tell "
            "the fastest; results are kept, so that a second build is fast.",
        ),
    ] = False
    foreign: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=PATH]",
            help="Always refused, since built libraries call no other library; see `mavcg select --foreign`.",
        ),
    ] = None
    max_workspace: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES", min=0, help="Choose no primitive that needs a larger workspace; default: no limit."
        ),
    ] = None
    max_size: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES|MB",
            help="Largest size of a model's packed weights, such as 4000000 or 4MB; default: no limit.",
        ),
    ] = None
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="Build only the subgraphs of an ONNX or TFLite model that mavcg supports; ONNX Runtime or LiteRT "
            "runs the rest and calls them.",
        ),
    ] = False
    also: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.onnx",
            help="With --partial: the model to write, which calls the library; default MODEL.mavcg.onnx.",
        ),
    ] = None
    min_share: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="With --partial: least share of the model's multiply-accumulates in a subgraph; default 1.",
        ),
    ] = None
    aar: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.aar", help="For a model on Android: also pack library and header for Gradle (prefab)."
        ),
    ] = None
    max_arena: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES|MB",
            help="Largest size of a model's intermediate buffers; layers are computed by parts of rows where that is "
            "needed; default: no limit.",
        ),
    ] = None
    depth_first: Annotated[
        str | None,
        typer.Option(
            metavar="auto|on|off",
            help="Compute layers of a model by bands of rows that stay in a cache; auto, the default: where that is "
            "predicted to be faster.",
        ),
    ] = None
    max_seconds: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Longest time that the build may take, in seconds; default: 3600, for a model 900 and 30 for each MB.",
        ),
    ] = None
    max_memory: MaxMemory = None
    link_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPTION",
            help="Option for the linker, such as -Wl,-z,now, or an archive or object to link; may be repeated.",
        ),
    ] = None
    version_script: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Linker version script: the symbols to export, and their versions."),
    ] = None
    library: Annotated[
        list[str] | None, typer.Option("-l", "--library", metavar="NAME", help="Link with libNAME; may be repeated.")
    ] = None
    library_dir: Annotated[
        list[str] | None,
        typer.Option("-L", "--library-dir", metavar="FOLDER", help="Folder that has the libraries of -l; repeatable."),
    ] = None
    soname: Annotated[
        str | None, typer.Option(metavar="NAME", help="The library's name for the loader; default: its file's name.")
    ] = None
    strip: Strip = False
    runtime: Annotated[
        str | None,
        typer.Option(
            metavar="small|static|shared",
            help="The selector: small: in the library, under 3 kB, with MAVCG_CPU_MAP and MAVCG_TRACE only where "
            "libmavcg_rt.so is loaded; static: in the library, with both; shared: libmavcg_rt.so itself. Default "
            "small, for macOS static.",
        ),
    ] = None
    jobs: Jobs = None
    operators: Annotated[
        bool, typer.Option("--operators", help="List the operators of models that are supported, by format, and end.")
    ] = False
    as_json: JsonReport = False

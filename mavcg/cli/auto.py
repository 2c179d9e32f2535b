"""The verb `mavcg auto`: repeat profiling, building and measuring until no further function is hot."""

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.console.option_class import command_of
from mavcg.console.output import Progress, console, note, print_json
from mavcg.console.shared_options import Jobs, JsonReport
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.program.auto_steps import AutoMachine, AutoRequest

_WAITING = 1  # exit status if functions over the threshold are left


@dataclass(frozen=True)
class AutoOptions:
    """The command line of `mavcg auto`."""

    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[mavcg.toml] [-- COMMAND..]",
            help="The build file, a .toml; default ./mavcg.toml. After --: the program to run, with its arguments, in "
            "place of [profile] command.",
        ),
    ] = None
    runner: Annotated[
        str | None,
        typer.Option(
            metavar="R", help="Machine to run the program on: ssh:user@host[:port] or adb[:SERIAL]; default: this one."
        ),
    ] = None
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="Least share of the run's time that makes a function hot; default: the build file's, else 5.",
        ),
    ] = None
    rounds: Annotated[int | None, typer.Option(metavar="N", min=1, help="Largest number of rounds; default 20.")] = None
    per_round: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Number of new functions in each round; default: all over the threshold."
        ),
    ] = None
    runs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of measured runs with the generic versions, and with each core's versions; default 5.",
        ),
    ] = None
    jobs: Jobs = None
    as_json: JsonReport = False


def run_auto(options: AutoOptions) -> None:
    """Profile a program, build versions of its hot functions, measure them, and drop those that do not help, in rounds.

    The rounds end when no further function takes more than the threshold. mavcg.toml names the command to profile
    ([profile] command; or it comes after --) and a command that builds the program before each profile ([profile]
    build); in its environment, MAVCG_LIBRARY names the library to link, and is empty in the first round. [build] has
    sources, and cores or board (default: this machine). A version is kept if it gains more than the noise of the runs.
    If nothing can be run, the models of the cores decide, and the report says so. Exit status 0: no function is left
    over the threshold; 1: the rounds ended before that.

    \b
    mavcg auto
    mavcg auto -- ./app input.bin
    mavcg auto --json --per-round 1 > rounds.json
    mavcg auto project/mavcg.toml --threshold 2 --runs 9
    mavcg auto --runner ssh:pi@10.0.0.7
    mavcg auto --runner adb
    """
    from mavcg.program.auto_report import auto_json, show_auto
    from mavcg.program.auto_rounds import MOST_ROUNDS, RoundLimits, run_rounds
    from mavcg.program.auto_steps import ProgramSteps
    from mavcg.program.version_choice import MIN_GAIN

    request = _auto_request(options)
    percent = request.build.min_gain
    limits = RoundLimits(
        MIN_GAIN if percent is None else percent / 100,
        options.rounds or MOST_ROUNDS,
        options.per_round,
        request.build.max_functions,
    )
    with ExitStack() as stack:
        machine = _machine(request, options.runner, stack)
        if machine.why_not:
            note(f"nothing can be measured: {machine.why_not}")
        with Progress() as progress:
            outcome = run_rounds(ProgramSteps(request, machine, progress, note), limits, note)
    description = machine.description
    if options.as_json:
        print_json(auto_json(outcome, description))
    else:
        show_auto(outcome, description, request.threshold, console())
    if outcome.waiting:
        raise typer.Exit(_WAITING)


auto = command_of("auto", AutoOptions, run_auto)


def _auto_request(options: AutoOptions) -> "AutoRequest":
    """Return the settings of mavcg.toml and the options. Raises: MavcgError for settings that rounds cannot use."""
    from mavcg.hardware.board import HOST
    from mavcg.program.auto_steps import AutoRequest
    from mavcg.program.buildfile import FILE_NAME, ProfileTable, library_of_folder, read_project

    path, command = _file_and_command(tuple(options.words or ()))
    if path is None and not Path(FILE_NAME).is_file():
        raise MavcgError(
            f"auto: there is no {FILE_NAME} in this folder; write one with [profile] command and [build] sources and "
            "board, or name a build file"
        )
    path = path or Path(FILE_NAME)
    project = read_project(path)
    if command:
        project = replace(project, profile=replace(project.profile or ProfileTable(), command=command))
    build = project.build
    if build is None or not (build.sources or build.ir or build.compile_commands):
        fault = "[build] command builds the program itself" if build and build.command else "there is nothing to build"
        raise MavcgError(f"{path}: {fault}; mavcg auto needs [build] with sources, ir or compile_commands")
    kept_profile = project.folder / (build.profile or project.profile_name)
    if not (project.profile and project.profile.command) and not kept_profile.is_file():
        raise MavcgError(
            f'{path}: names no program to profile; add [profile] with command = ["./app", "args"], or build.profile, '
            "or give it here: mavcg auto -- ./app args"
        )
    for name in build.hot:
        note(f"build.hot {name}: is ignored, because mavcg auto takes hot functions from profiles")
    output = build.output or library_of_folder(project.folder)
    table = project.profile
    defaults = AutoRequest(project, build)
    request = AutoRequest(
        project,
        replace(
            build,
            output=output,
            board=build.board or (None if build.cores or build.target else HOST),
            runtime=build.runtime or "static",
            threshold=build.threshold if options.threshold is None else options.threshold,
        ),
        options.jobs,
        options.runs or defaults.runs,
        (table and table.frequency) or defaults.frequency_hz,
        table.event if table else None,
    )
    if build.runtime == "small":
        raise MavcgError(
            f"{project.path}: build.runtime small: has no MAVCG_CPU_MAP, by which mavcg auto runs versions in turn; "
            "leave it out here; a last mavcg build makes the library with the small selector"
        )
    _ = request.threshold  # raises for an invalid value now, not after a build
    return request


def _file_and_command(words: tuple[str, ...]) -> tuple[Path | None, tuple[str, ...]]:
    """Divide the words of the command line: a first word that ends in .toml is the build file, the others are run."""
    if words and Path(words[0]).suffix == ".toml":
        return Path(words[0]), words[1:]
    return None, words


def _machine(auto_request: "AutoRequest", runner: str | None, stack: ExitStack) -> "AutoMachine":
    """Return the machine that runs the program. stack: closes the connection to it at the end. Raises: MavcgError."""
    from mavcg.program.auto_local import local_machine
    from mavcg.program.request import make_request

    file = replace(auto_request.build, measurements=None, hot=(), profile=None, only_hot=None)
    request, _board = make_request(file, auto_request.project.folder, auto_request.jobs, ())
    if runner is None:
        return local_machine(auto_request, request)
    from mavcg.lab.runners.auto_board import board_machine
    from mavcg.lab.runners.open import open_runner

    if not auto_request.command:
        raise MavcgError(f"--runner {runner}: there is no program to run; add [profile] with command to mavcg.toml")
    return board_machine(auto_request, request, stack.enter_context(open_runner(runner)))

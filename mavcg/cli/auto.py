"""`mavcg auto`: profile, build, measure and drop, round after round, until no hot function is left."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mavcg.cli.output import Progress, console, note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.program_road.auto_steps import Question, Where

_WAITING = 1  # exit status: functions over the threshold are left


def auto(
    config: Annotated[
        Path | None, typer.Argument(metavar="[mavcg.toml]", help="Build file; ./mavcg.toml if not given.")
    ] = None,
    runner: Annotated[
        str | None,
        typer.Option(metavar="R", help="Where the program runs: ssh:user@host[:port], adb[:SERIAL]; this machine."),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Share of the run that makes hot; the file's, else 5.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(metavar="N", min=1, help="At most N rounds; 20.")] = None,
    per_round: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Take up N functions a round; all over the threshold.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Measure by N runs as generic and as the core, each; 5.")
    ] = None,
    jobs: Annotated[int | None, typer.Option("-j", "--jobs", min=1, help="Compilers at a time; all CPUs.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Profile a program, build versions of what is hot, measure each on its core, drop those that do not help; again,
    until no further function takes more than the threshold.

    mavcg.toml names the command to profile ([profile] command), how to make the program (build: run before each
    profile; $MAVCG_LIBRARY names the library built so far, to be linked, and is empty before the first), sources, cores
    or board, and output ([build]). Where nothing can be run the models of the cores decide, and the report says so.
    Exit status 0: nothing is left over the threshold; 1: the rounds ended before.

    \b
    mavcg auto
    mavcg auto --json --per-round 1 > rounds.json
    mavcg auto project/mavcg.toml --threshold 2 --runs 9
    mavcg auto --runner ssh:pi@10.0.0.7
    mavcg auto --runner adb
    """
    from mavcg.program_road.auto_report import auto_json, show_auto
    from mavcg.program_road.auto_steps import ProgramSteps
    from mavcg.program_road.choosing import MIN_GAIN
    from mavcg.program_road.rounds import MOST_ROUNDS, Limits, run_rounds

    question = _question(config, threshold, runs, jobs)
    percent = question.build.min_gain
    limits = Limits(
        MIN_GAIN if percent is None else percent / 100, rounds or MOST_ROUNDS, per_round, question.build.max_functions
    )
    with ExitStack() as stack:
        where = _where(question, runner, stack)
        if where.why_not:
            note(f"nothing can be measured: {where.why_not}")
        with Progress() as progress:
            outcome = run_rounds(ProgramSteps(question, where, progress, note), limits, note)
    words = where.words
    if as_json:
        print_json(auto_json(outcome, words))
    else:
        show_auto(outcome, words, question.threshold, console())
    if outcome.waiting:
        raise typer.Exit(_WAITING)


def _question(config: Path | None, threshold: float | None, runs: int | None, jobs: int | None) -> "Question":
    """The checked mavcg.toml with the options. Raises: MavcgError for what cannot be gone round with."""
    from mavcg.program_road.auto_steps import Question
    from mavcg.program_road.buildfile import FILE_NAME, library_of_folder, read_project

    path = config or Path(FILE_NAME)
    if config is None and not path.is_file():
        raise MavcgError(
            f"auto: there is no {FILE_NAME} here; write one with [profile] command and [build] sources and board, or "
            "name one"
        )
    project = read_project(path)
    build = project.build
    if build is None or not (build.sources or build.ir or build.compile_commands):
        what = "[build] command is a build of the program itself" if build and build.command else "nothing to build"
        raise MavcgError(f"{path}: {what}; mavcg auto needs [build] with sources, ir or compile_commands")
    kept = project.folder / (build.profile or project.profile_name)
    if not (project.profile and project.profile.command) and not kept.is_file():
        raise MavcgError(
            f'{path}: names no program to profile; add [profile] with command = ["./app", "args"], or build.profile'
        )
    for name in build.hot:
        note(f"build.hot {name}: is not heeded, the profiles say what is hot")
    output = build.output or library_of_folder(project.folder)
    table = project.profile
    defaults = Question(project, build)
    question = Question(
        project,
        replace(build, output=output, threshold=build.threshold if threshold is None else threshold),
        jobs,
        runs or defaults.runs,
        (table and table.frequency) or defaults.frequency_hz,
        table.event if table else None,
    )
    _ = question.threshold  # refused now, not after a build
    return question


def _where(question: "Question", runner: str | None, stack: ExitStack) -> "Where":
    """The machine that runs the program; what is opened for it is closed by the stack. Raises: MavcgError."""
    from mavcg.program_road.auto_here import this_place
    from mavcg.program_road.request import make_request

    file = replace(question.build, measurements=None, hot=(), profile=None, only_hot=None)
    request, _board = make_request(file, question.project.folder, question.jobs, ())
    if runner is None:
        return this_place(question, request)
    from mavcg.program_road.auto_board import board_place
    from mavcg.runners.open import open_runner

    if not question.command:
        raise MavcgError(f"--runner {runner}: there is no program to run; add [profile] with command to mavcg.toml")
    return board_place(question, request, stack.enter_context(open_runner(runner)))

"""The verb `mavcg profile`: rank the functions of a program by time, for each core type if the data has core types."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mavcg.cli.profile_classes import check_classes, show_classes
from mavcg.cli.profile_options import ProfileOptions
from mavcg.cli.profile_report import nothing_json, print_table, ranking_json
from mavcg.console.option_class import command_of
from mavcg.console.output import note, print_json
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.program.profile_command import ProfileRun
    from mavcg.program.profiling.profile import Profile
    from mavcg.program.profiling.record import RecordOptions

STDERR = 2
DEFAULT_THRESHOLD_PERCENT = 5.0
_GIVE_ONE = (
    "give a command after --, as in mavcg profile -- ./app args, or a file, as in "
    "mavcg profile --import perf-script.txt"
)


def run_profile(options: ProfileOptions) -> None:
    """Rank the functions of a program by the time they take, and keep the profile for `mavcg build`.

    Without a command, it runs the command that ./mavcg.toml names ([profile] command, after [profile] build); options
    override the file. The profile is kept beside the file, as mavcg-profile.json unless the file or -o gives another
    name.

    \b
    mavcg profile
    mavcg profile -- ./app model.bin
    mavcg profile --import perf-script.txt --board exynos9820 -o app.profile.json
    mavcg profile --with callgrind --json -- ./app
    mavcg profile --classes --of libnet.so -- mavcg bench libnet.so --seconds 5
    mavcg profile --classes --import a.json --import b.json --plot shares.svg
    """
    if options.threshold is not None and not 0 <= options.threshold <= 100:
        raise MavcgError(f"--threshold {options.threshold:g}: is not a share in percent; give 0 to 100, such as 5")
    check_classes(options.classes, options.of_file, options.import_ or [])
    read = _import_profiles(options) if options.import_ else _record_profile(options)
    if read is None:
        if options.as_json:
            print_json(
                {"classes": [], "gemm_mean": None, "classified_by": "names"} if options.classes else nothing_json()
            )
        return
    for line in read.profiles[0].notes:
        note(line)
    if read.kept is not None:
        _keep(read.profiles[0], read.kept, options.output)
    if options.classes:
        _show_classes(options, read.profiles)
    else:
        _show_ranking(options, read)


profile = command_of("profile", ProfileOptions, run_profile)


@dataclass(frozen=True)
class _ReadProfiles:
    """Profiles that were imported, or the one that was recorded.

    kept: file to keep the first one in. threshold: in percent, None for the default. exit_status: of the recorded
    command.
    """

    profiles: "tuple[Profile, ...]"
    kept: Path | None
    threshold: float | None
    exit_status: int | None


def _import_profiles(options: ProfileOptions) -> _ReadProfiles:
    """Read the files of --import. Raises: MavcgError for options about recording, and for files that are not read."""
    from mavcg.program.profile_command import profiled_board
    from mavcg.program.profiling.load import load_profile

    if options.command or options.config is not None:
        conflicting = "a command" if options.command else "--config"
        raise MavcgError(f"profile: --import and {conflicting} exclude each other; {_GIVE_ONE}")
    _refuse_recording_options(options)
    board, binaries = profiled_board(options.board), tuple(options.binary or ())
    profiles = tuple(load_profile(path, board, binaries) for path in options.import_ or ())
    return _ReadProfiles(profiles, options.output, options.threshold, None)


def _record_profile(options: ProfileOptions) -> _ReadProfiles | None:
    """Profile the command, given or of mavcg.toml; return None, after a note, if there is nothing to profile."""
    from mavcg.program.profile_command import profile_command

    run = _run(
        options.config,
        tuple(options.command or ()),
        {
            "recorder": options.recorder,
            "frequency": options.frequency,
            "event": options.event,
            "board": options.board,
            "threshold": options.threshold,
        },
    )
    if run is None:
        return None
    kept = options.output or _default_output(run)
    record_options = _record_options(run, options.call_graph, options.keep, options.as_json)
    profiled = profile_command(run, record_options, tuple(options.binary or ()), note)
    for line in profiled.notes:
        note(line)
    return _ReadProfiles((profiled.profile,), kept, run.threshold, profiled.exit_status)


def _keep(profile: "Profile", file: Path, output: Path | None) -> None:
    """Write a profile to a file, whose folder is made unless -o names the file. output: value of -o."""
    from mavcg.program.profiling.profile_file import save_profile

    if output is None:
        file.parent.mkdir(parents=True, exist_ok=True)
    save_profile(profile, file)
    note(f"wrote {file}")


def _show_classes(options: ProfileOptions, profiles: "tuple[Profile, ...]") -> None:
    """Print the shares by class of function, for each profile: labelled by its file, or by the command."""
    if options.import_:
        labels = [path.stem for path in options.import_]
    else:
        labels = [options.of_file or profiles[0].command or "the program"]
    by_label = dict(zip(labels, profiles, strict=True))
    show_classes(by_label, options.of_file or "", options.binary or (), options.plot, options.as_json)


def _show_ranking(options: ProfileOptions, read: _ReadProfiles) -> None:
    """Print the functions by share of the time, and draw them if --plot names a file."""
    profile = read.profiles[0]
    threshold = (DEFAULT_THRESHOLD_PERCENT if read.threshold is None else read.threshold) / 100
    if options.plot is not None:
        from mavcg.program.profiling.chart import plot_shares

        plot_shares(profile, options.plot, threshold, options.top)
        note(f"wrote {options.plot}")
    if options.as_json:
        of_a_command = {} if options.import_ else {"profile": str(read.kept) if read.kept else None}
        print_json({**ranking_json(profile, read.exit_status), **of_a_command})
    else:
        print_table(profile, threshold, options.top)


def _run(config: Path | None, command: tuple[str, ...], options: dict[str, Any]) -> "ProfileRun | None":
    """Return the run to profile, of the given command or that of mavcg.toml; None, after a note, if there is nothing.

    Args:
        options: values that override those of the file, by field of ProfileRun; None for an option not given.
    """
    from mavcg.program.buildfile import FILE_NAME, read_project
    from mavcg.program.profile_command import ProfileRun, nothing_to_profile, project_run

    path = config or (Path(FILE_NAME) if Path(FILE_NAME).is_file() else None)
    if path is None and not command:
        raise MavcgError(
            f"profile: nothing to profile; {_GIVE_ONE}, or write a {FILE_NAME} that names the command "
            "(`mavcg init` does)"
        )
    run = ProfileRun(command)
    if path is not None:
        project = read_project(path)
        run = project_run(project)
        if command:  # the given command runs in this folder, without the file's build
            run = replace(run, command=command, build=(), folder=Path(), location="")
        elif not run.command:
            note(nothing_to_profile(project))
            return None
    if options["recorder"] == "callgrind":  # the file's settings of perf's sampling do not apply to it
        run = replace(run, frequency=None, event=None)
    return replace(run, **{name: value for name, value in options.items() if value is not None})


def _default_output(run: "ProfileRun") -> Path | None:
    """Return the file that keeps the profile without -o; None, after a note, if this folder cannot be written."""
    from mavcg.program.profile_command import refuse_other_file

    refuse_other_file(run.output)
    if run.output == Path(run.output.name) and not os.access(".", os.W_OK):
        note("the profile is not kept, because this folder cannot be written; -o FILE keeps it elsewhere")
        return None
    return run.output


def _record_options(run: "ProfileRun", call_graph: bool, keep: Path | None, as_json: bool) -> "RecordOptions":
    from mavcg.program.profiling.record import DEFAULT_FREQUENCY_HZ, RecordOptions

    # With --json, stdout has only the document, so the program's output goes to stderr.
    stdout = STDERR if as_json else None
    keep = keep.absolute() if keep else None  # the command runs in the folder of its mavcg.toml
    return RecordOptions(run.frequency or DEFAULT_FREQUENCY_HZ, run.event, call_graph, keep, stdout)


def _refuse_recording_options(options: ProfileOptions) -> None:
    """Raise MavcgError for an option about recording with --import, whose profile is recorded already."""
    values = {
        "--with": (options.recorder or "perf") != "perf",
        "--frequency": options.frequency,
        "--event": options.event,
        "--call-graph": options.call_graph,
        "--keep": options.keep,
    }
    given = [name for name, value in values.items() if value]
    if given:
        raise MavcgError(
            f"profile: {', '.join(given)} with --import: has no effect on a recorded profile; leave it out"
        )

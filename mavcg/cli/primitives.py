"""The verb `mavcg primitives`: list convolution primitives, or compare one of them with the definition."""

import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mavcg.console.output import console, print_json
from mavcg.console.shared_options import JsonEverything
from mavcg.errors import MavcgError

if TYPE_CHECKING:
    from mavcg.lab.trials.check import Checked
    from mavcg.specs.primitive import Primitive, Scenario

SCENARIO = "C,H,W,stride,K,M[,pad,groups]"
LEAST_NUMBERS, MOST_NUMBERS = 6, 8
# Layers of well-known networks, one of each kind: the samples for `applies_to` and `workspace`.
SAMPLES = {
    "3x3": "64,56,56,1,3,64,1",
    "3x3 stride 2": "128,56,56,2,3,128,1",
    "1x1": "256,14,14,1,1,512",
    "1x1 stride 2": "256,56,56,2,1,512",
    "5x5": "32,28,28,1,5,96,2",
    "1x7": "128,17,17,1,1x7,128,0x3",
    "7x1": "128,17,17,1,7x1,128,3x0",
    "5x1": "64,28,28,1,5x1,64,2x0",
    "3x1": "384,8,8,1,3x1,384,1x0",
    "7x7 stride 2 of 3 channels": "3,224,224,2,7,64,3",
    "11x11 stride 4 of 3 channels": "3,227,227,4,11,96",
    "groups": "96,27,27,1,5,256,2,2",
    "depthwise": "144,56,56,1,3,144,1,144",
    "depthwise stride 2": "144,56,56,2,3,144,1,144",
}


def primitives(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[check]", help="check: compare a primitive with the definition; default: list all primitives."
        ),
    ] = None,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="With check: name of the primitive.")] = None,
    family: Annotated[
        str | None, typer.Option(metavar="F", help="For the list: only primitives of this family; default: all.")
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            metavar=SCENARIO,
            help="With check: the convolution to compute: input channels, height and width, stride, kernel size, "
            "output channels, padding (default 0) and groups (default 1).",
        ),
    ] = None,
    core: Annotated[
        str | None,
        typer.Option(
            metavar="host|CORE",
            help="With check: the core to generate code for, which is emulated if it is AArch64; default host.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="With check: seed of the random numbers; default 0.")
    ] = 0,
    as_json: JsonEverything = False,
) -> None:
    """List convolution primitives, or compare one with the definition in double precision.

    The list has each primitive's layouts, the kinds of layers that it computes (from a sample of well-known layers),
    and the size of its workspace for the largest of these. Primitives for quantised layers come last. Their sums are
    exact, so check is for f32 primitives only.

    \b
    mavcg primitives
    mavcg primitives --family direct --json
    mavcg primitives check direct_blocked_channels_hwc_hwc --scenario 64,56,56,1,3,64,1 --core host
    mavcg primitives check winograd_1d_f2_k7_hwc_hwc --scenario 128,17,17,1,1x7,128,0x3 --core host
    mavcg primitives check sum2d_scalar_chw_chw --scenario 8,9,9,2,3,8,1,8 --core cortex-a55 --json
    """
    if what is None:
        _refuse_without_check(scenario, core)
        _list(family, as_json)
        return
    if what != "check":
        raise MavcgError(
            f"mavcg primitives {what}: is not a subcommand; leave it out for the list, or write check NAME"
        )
    if family is not None:
        raise MavcgError(f"--family {family}: is for the list; leave it out with check")
    if name is None:
        raise MavcgError("mavcg primitives check: no primitive is named; `mavcg primitives` lists them")
    _check(name, scenario, core or "host", seed, as_json)


def parse_scenario(text: str) -> "Scenario":
    """Parse C,H,W,stride,K,M[,pad,groups], with stride, K and pad as 1x7 (rows x columns) if axes differ.

    Raises: MavcgError.
    """
    from mavcg.lab.trials.check import verify_scenario
    from mavcg.specs.primitive import AxisWindow, Scenario

    fields = text.split(",")
    if not LEAST_NUMBERS <= len(fields) <= MOST_NUMBERS:
        raise MavcgError(f"--scenario {text}: has {len(fields)} numbers; give {SCENARIO}")
    per_axis = {3: "stride", 4: "K", 6: "pad"}  # fields that may have a value for rows and another for columns
    pairs: list[tuple[int, int]] = []
    for number, field in enumerate(map(str.strip, fields)):
        if not re.fullmatch(r"[0-9]{1,9}(x[0-9]{1,9})?" if number in per_axis else r"[0-9]{1,9}", field):
            raise MavcgError(f"--scenario {text}: '{field}' is not a whole number of 0 or more; give {SCENARIO}")
        rows, _, columns = field.partition("x")
        pairs.append((int(rows), int(columns or rows)))
    (c, _), (h, _), (w, _), (stride, column_stride), (k, column_k), (m, _), *optional = pairs
    (pad, column_pad), (groups, _) = [*optional, *((0, 0), (1, 1))[len(optional) :]]
    scenario = Scenario(c, h, w, stride, k, m, pad, groups, across=AxisWindow(column_k, column_stride, column_pad))
    verify_scenario(scenario)
    return scenario


def primitive_json(primitive: "Primitive") -> dict[str, Any]:
    """Return a primitive's entry in --json; its key workspace has the size in bytes by kind of layer."""
    samples = {kind: parse_scenario(text) for kind, text in SAMPLES.items()}
    dtype = "f32"
    if _is_eight_bit(primitive):
        samples, dtype = {kind: eight_bit_sample(scenario) for kind, scenario in samples.items()}, "8 bits"
    workspace = {kind: primitive.workspace_bytes(s) for kind, s in samples.items() if primitive.applies(s)}
    return {
        "name": primitive.name,
        "family": primitive.family,
        "dtype": dtype,
        "layout_in": str(primitive.layout_in),
        "layout_out": str(primitive.layout_out),
        "workspace": workspace,
        "applies_to": list(workspace),
        "error_bound": primitive.error_bound,
    }


def eight_bit_sample(scenario: "Scenario") -> "Scenario":
    """Return the scenario in 8 bits, with the padding as a part of the image: a separate step fills the border."""
    down, along = scenario.pads
    return replace(
        scenario,
        h=scenario.h + 2 * down,
        w=scenario.w + 2 * along,
        pad=0,
        dtype="u8",
        across=None if scenario.across is None else replace(scenario.across, pad=0),
    )


def _is_eight_bit(primitive: "Primitive") -> bool:
    from mavcg.kernels.primitives.registry import eight_bit_primitives

    return primitive in eight_bit_primitives()


def _refuse_without_check(scenario: str | None, core: str | None) -> None:
    for option, value in (("--scenario", scenario), ("--core", core)):
        if value is not None:
            raise MavcgError(f"{option} {value}: is for check; write mavcg primitives check NAME {option} {value}")


def _list(family: str | None, as_json: bool) -> None:
    from mavcg.kernels.primitives.registry import primitives_of_family

    entries = [primitive_json(primitive) for primitive in primitives_of_family(family)]
    if as_json:
        print_json(entries)
        return
    from rich.table import Table

    table = Table("primitive", "family", "in", "out", "workspace", "computes", title=f"{len(entries)} primitives")
    for entry in entries:
        is_general = len(entry["applies_to"]) == len(SAMPLES)
        kinds = "all" if is_general else ", ".join(entry["applies_to"]) or "none of these"
        largest = max(entry["workspace"].values(), default=0)
        size = f"{largest / 1e6:.2f} MB" if largest else ""
        table.add_row(entry["name"], entry["family"], entry["layout_in"], entry["layout_out"], size, kinds)
    out = console()
    out.print(table)
    out.print(f"Workspace: for the largest of the layers that the primitive computes. All: {', '.join(SAMPLES)}.")


def _check(name: str, text: str | None, core: str, seed: int, as_json: bool) -> None:
    """Compare a primitive with the definition and print the result.

    Raises: MavcgError for bad input, and if the primitive is wrong, after the result is printed.
    """
    from mavcg.kernels.primitives.registry import find_primitive
    from mavcg.lab.trials.check import check
    from mavcg.lab.trials.run import find_machine
    from mavcg.profiles.core_timing import of_core_option
    from mavcg.specs.primitive import Epilogue

    primitive = find_primitive(name)
    if _is_eight_bit(primitive):
        raise MavcgError(
            f"mavcg primitives check {name}: computes quantised convolutions, whose sums are exact, and check is for "
            "f32; to check the results of an 8-bit library, run it (`mavcg run`)"
        )
    if text is None:
        raise MavcgError(f"mavcg primitives check {name}: give --scenario {SCENARIO}")
    scenario = parse_scenario(text)
    try:
        machine = find_machine(core)
    except MavcgError as error:
        raise of_core_option(error) from error
    checked = check(primitive, scenario, machine, Epilogue(bias=True, residual=True, act="relu"), seed)
    if as_json:
        print_json(_checked_json(checked, core))
    else:
        verdict = "right" if checked.ok else "wrong"
        console().print(
            f"{name} on {core}: {verdict}; largest error {checked.max_error:.3g} of the largest sum, bound "
            f"{checked.bound:.3g}; {scenario.macs / 1e6:.2f} M multiply-accumulates, with bias, residual and relu"
        )
    if not checked.ok:
        faults = "; ".join(checked.faults) or f"error {checked.max_error:.3g} is more than {checked.bound:.3g}"
        raise MavcgError(f"{name}, scenario {text}, core {core}: {faults}; please report it")


def _checked_json(checked: "Checked", core: str) -> dict[str, Any]:
    s = checked.case.scenario
    return {
        "name": checked.case.primitive.name,
        "core": core,
        "scenario": {
            "c": s.c,
            "h": s.h,
            "w": s.w,
            "stride": s.stride,
            "k": s.k,
            "m": s.m,
            "pad": s.pad,
            "groups": s.groups,
        }
        | ({} if s.across is None else {"across": asdict(s.across)}),
        "max_error": checked.max_error,
        "error_bound": checked.bound,
        "faults": list(checked.faults),
        "ok": checked.ok,
    }

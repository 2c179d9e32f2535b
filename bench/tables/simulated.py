"""Markdown tables of the records of simulated cores."""

from bench.tables.markdown import Record, table

_HEAD = ("rows", "median", "within 10 %", "within 35 %", "upper quartile")


def simulated_fits(record: Record) -> str:
    """Return simulated over modelled cycles before and after the fit, and after it by family."""
    rows: list[list[object]] = []
    families: list[list[object]] = []
    for kind in record["kinds"]:
        for label, key in (("before", "before"), ("fitted", "after_held_out")):
            rows.append([kind["core"], f"{label}, held out", *_cells(kind[key])])
        rows.append([kind["core"], "fitted, of the fit", *_cells(kind["after_fitted"])])
        families += [[kind["core"], name, *_cells(ratios)] for name, ratios in kind["after_by_family"].items()]
    fills = [
        [kind["core"], *(f"{kind['fills'][key]:.2f}" for key in ("from_l2", "from_memory", "from_memory_prefetched"))]
        for kind in record["kinds"]
    ]
    text = (
        "Simulated, not measured: cycles of primitives on a simulated core, over those of the model of primitives "
        "(docs/tuning-models.md); before: with constants that had been fitted on an x86 for all cores. A third of the "
        "rows was held out of the fit by lot."
    )
    shown = "Exposed part of the time of a cache line beside 24 multiply-adds:"
    return "\n\n".join(
        [
            text,
            table(["core", "constants", *_HEAD], rows),
            table(["core", "family", *_HEAD], families),
            shown,
            table(["core", "from level 2", "from memory", "from memory, prefetched"], fills),
        ]
    )


def _cells(ratios: Record) -> list[object]:
    return [
        ratios["rows"],
        f"{ratios['median']:.2f}",
        f"{ratios['within_10_percent']:.0%}",
        f"{ratios['within_35_percent']:.0%}",
        f"{ratios['upper_quartile']:.2f}",
    ]


def simulated_layers(record: Record) -> str:
    """Return predicted over simulated times by network, and by kind of kernel."""
    head = ("large layers", "within 10 %", "of the time", "predicted / simulated", "median of layers")

    def cells(entry: Record) -> list[object]:
        known = [entry[key] for key in ("within", "share_within", "ratio", "median_ratio")]
        shares = ["" if value is None else f"{value:.0%}" for value in known[:2]]
        return [entry["large"], *shares, *("" if value is None else f"{value:.2f}" for value in known[2:])]

    totals = [[e["core"], "all", f"{e['ms']:.1f}", *cells(e)] for e in record["cores"]]
    networks = [[e["core"], e["network"], f"{e['ms']:.1f}", *cells(e)] for e in record["networks"]]
    kinds = sorted(record["kinds"], key=lambda e: (e["core"], -e["ms"]))
    by_kind = [[e["core"], e["kind"], f"{e['ms']:.1f}", *cells(e)] for e in kinds]
    text = (
        f"Modelled and simulated, not measured: one core of {record['board']}, one thread; long layers by "
        f"{record['samples']} samples. A large layer has at least {record['least_share']:.1%} of its network's "
        "time; shares of the time count all layers."
    )
    return "\n\n".join(
        [
            text,
            table(["core", "network", "simulated ms", *head], [*totals, *networks]),
            "By kind of kernel:",
            table(["core", "kernels", "simulated ms", *head], by_kind),
        ]
    )


def simulated_exposure(record: Record) -> str:
    """Return the table of exposed fractions, and of the errors with them on the layers that they were fitted to."""
    rows, errors = [], []
    for kind in record["kinds"]:
        exposed = kind["exposed"]
        names = list(dict.fromkeys(name.rpartition("_")[2] for name in exposed))
        for name in names:
            rows.append([kind["core"], name, *(f"{exposed[f'{place}_{name}']:.2f}" for place in ("near", "far"))])
        for label in ("before", "after"):
            errors_of = kind[label]
            share, ratio = f"{errors_of['within_10_percent']:.0%}", f"{errors_of['ratio']:.2f}"
            errors.append(
                [kind["core"], {"before": "roofline", "after": "fractions"}[label], errors_of["rows"], share, ratio]
            )
    text = (
        f"Modelled and simulated, not measured: layers of {', '.join(record['networks'])}. `python -m "
        "bench.simulated_layers` judges predictions by other networks. Fraction of the time of cache lines that is "
        "beside the arithmetic, from caches (near) and from memory (far): unseen: loaded lines that the prefetcher "
        "does not foresee, seen: the others, stored: lines that stores bring, streamed: lines that are written whole "
        "(mavcg/choose/predict/exposure.py)."
    )
    return "\n\n".join(
        [
            text,
            table(["core", "lines", "near", "far"], rows),
            table(["core", "model", "layers", "within 10 %", "predicted / simulated"], errors),
        ]
    )


def simulated_choices(record: Record) -> str:
    """Return each choice's simulated time over that of the best one."""
    near = sum(row["ratio"] <= record["near"] for row in record["choices"])
    rows = [
        [
            row["core"],
            row["scenario"],
            f"`{row['chosen']}`",
            f"`{row['best']}`",
            f"{row['ratio']:.2f}",
            len(row["rows"]),
        ]
        for row in record["choices"]
    ]
    text = (
        f"Modelled and simulated, not measured: {near} of {len(rows)} choices take at most {record['near']:g} times as "
        "long as the best of those simulated: the chosen one's nearest rivals and the cheapest of each family. No "
        "scenario is one that the model's constants were fitted to."
    )
    head = ["core", "scenario", "chosen by the model", "best simulated", "chosen / best", "simulated"]
    return "\n\n".join([text, table(head, rows)])


def simulated_sparse(record: Record) -> str:
    """Return the table of the constants of sparse products, and of the errors on rows held out of the fit."""
    rows = []
    for kind in record["kinds"]:
        held_out = kind["held_out_factors_over_it"]
        figures = (
            kind["before"],
            kind["median_factor"],
            kind["sparse"],
            held_out["median"],
            held_out["upper_quartile"],
        )
        rows.append([kind["core"], kind["rows"], held_out["rows"], *(f"{figure:.2f}" for figure in figures)])
    text = (
        "Modelled and simulated, not measured: products of weights with 50, 75 and 90 % zeros, singly and in blocks "
        "of four. Factors on the cycles by the rates of loads, multiply-adds and issue; the constant is the upper "
        "quartile of the rows fitted. Held out: factors over that constant."
    )
    head = ["core", "rows", "held out", "constant before", "median factor", "constant", "median", "upper quartile"]
    return "\n\n".join([text, table(head, rows)])


TABLES = {
    "simulated_sparse": ("Products of sparse weights on simulated Arm cores", simulated_sparse),
    "simulated_choices": ("Choices of primitives for Arm cores against simulated ones", simulated_choices),
    "simulated_exposure": ("Memory time beside arithmetic on simulated Arm cores", simulated_exposure),
    "simulated_layers": ("Networks on simulated Arm cores: predicted against simulated layers", simulated_layers),
    "simulated_fits": ("Primitives on simulated Arm cores against their model", simulated_fits),
}

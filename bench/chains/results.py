"""Outcomes of chains: kept by seed in build/chains/, a line for each chain, and counted for the record."""

import collections
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import records
from bench.chains.chain import Chain, as_json, from_json
from bench.chains.libraries import Judged
from bench.chains.verdict import FAULTS, Verdict
from bench.record import facts, write
from bench.records import RESULTS, ROOT
from mavcg.errors import MavcgError
from mavcg.files.whole_file import write_whole

FOLDER = ROOT / "build/chains"
STATUSES = ("same", "explained", *FAULTS, "refused", "skipped")


@dataclass(frozen=True)
class Outcome:
    """A chain's verdict. versions: of code. dtype: of its first float result. elements, undetermined: as Verdict's."""

    number: int
    status: str
    reason: str
    format: str
    operators: tuple[str, ...]
    dtypes: tuple[str, ...]
    versions: tuple[str, ...]
    elements: int
    undetermined: int


def outcome(number: int, chain: Chain | None, one: Judged) -> Outcome:
    """Return what is kept of a chain's verdict. chain: None if it was not made."""
    verdict = one.verdict
    dtypes = () if chain is None else tuple(sorted({x.dtype.name for x in chain.inputs.values()}))
    return Outcome(
        number,
        verdict.status,
        verdict.reason,
        "" if chain is None else chain.format,
        () if chain is None else chain.operators,
        dtypes,
        one.versions,
        verdict.elements,
        verdict.undetermined,
    )


def _path(seed: int) -> Path:
    return FOLDER / f"{seed}.jsonl"


def load(seed: int) -> list[Outcome]:
    """Return the outcomes of a seed so far, of each chain the last; of a line that was cut off, none."""
    if not _path(seed).is_file():
        return []
    known: dict[int, Outcome] = {}
    for line in _path(seed).read_text(encoding="utf-8").splitlines():
        try:
            fields = json.loads(line)
        except json.JSONDecodeError:  # the run was ended while it wrote the last one
            continue
        known[fields["number"]] = _outcome_of(fields)
    return list(known.values())


def _outcome_of(fields: Mapping[str, Any]) -> Outcome:
    return Outcome(
        fields["number"],
        fields["status"],
        fields["reason"],
        fields["format"],
        tuple(fields["operators"]),
        tuple(fields["dtypes"]),
        tuple(fields["versions"]),
        fields["elements"],
        fields["undetermined"],
    )


def append(seed: int, outcomes: Sequence[Outcome]) -> None:
    """Add chains to the outcomes of a seed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(_path(seed), "a", encoding="utf-8") as file:
        file.write("".join(json.dumps(asdict(one)) + "\n" for one in outcomes))


def keep(seed: int, number: int, build: str, chain: Chain, verdict: Verdict) -> Path:
    """Write a shrunk chain with its verdict and the command that judges it again; returns the file."""
    path = FOLDER / f"{seed}-{number}.json"
    FOLDER.mkdir(parents=True, exist_ok=True)
    content = {
        "seed": seed,
        "number": number,
        "build": build,
        "status": verdict.status,
        "reason": verdict.reason,
        "command": f"python -m bench.chains --file {path.relative_to(ROOT)}",
        "graph": str(chain).splitlines(),
        "chain": as_json(chain),
    }
    write_whole(path, json.dumps(content, indent=1) + "\n")
    return path


def kept(path: Path) -> tuple[Chain, str]:
    """Return the chain of a file and how its library is built. Raises: MavcgError for another file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return from_json(content["chain"]), str(content["build"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MavcgError(f"{path}: no chain that a run kept ({type(error).__name__}: {error})") from error


def counts_line(done: Sequence[Outcome]) -> str:
    """Return the chains by status."""
    counts = collections.Counter(one.status for one in done)
    return f"{len(done)} chains: " + ", ".join(f"{status} {count}" for status, count in counts.most_common())


def summary(done: Sequence[Outcome]) -> dict[str, Any]:
    """Return the counts of a record."""
    versions = collections.Counter(version for one in done for version in one.versions)
    lengths = sorted(len(one.operators) for one in done if one.operators)
    return {
        "chains": len(done),
        "counts": dict(collections.Counter(one.status for one in done).most_common()),
        "formats": dict(collections.Counter(one.format for one in done if one.format).most_common()),
        "types": dict(collections.Counter("+".join(one.dtypes) for one in done if one.dtypes).most_common(12)),
        "versions": dict(versions.most_common()),
        "operators": len({operator for one in done for operator in one.operators}),
        "nodes": sum(lengths),
        "median_nodes": lengths[len(lengths) // 2] if lengths else 0,
        "elements": sum(one.elements for one in done),
        "undetermined": sum(one.undetermined for one in done),
        "explained": dict(collections.Counter(one.reason for one in done if one.status == "explained").most_common()),
        "faults": [asdict(one) for one in done if one.status in FAULTS],
    }


def record(seed: int, done: Sequence[Outcome]) -> Path:
    """Write the record: a row of counts for this date and seed above those of before."""
    head = facts("counted", f"bench.chains --seed {seed} --record")
    counted = summary(done)
    row = [head["date"][:10], str(seed), head["commit"], str(len(done))]
    row += [str(counted["counts"].get(status, 0)) for status in STATUSES]
    before = [list(cells) for cells in _recorded_rows() if list(cells[:2]) != row[:2]]
    columns = ["date", "seed", "commit", "chains", *STATUSES]
    return write("chains", head | {"head": columns, "rows": [row, *before], "last": counted})


def _recorded_rows() -> Sequence[Sequence[str]]:
    """Return the rows by date of the record in bench/results/."""
    path = RESULTS / "chains.json"
    return next(records.read(path).tables).rows if path.is_file() else ()

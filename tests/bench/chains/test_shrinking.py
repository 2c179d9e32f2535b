"""A planted fault is found, shrunk to its operator, and kept in a file of some kilobytes that judges it again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")

from bench.chains import results  # noqa: E402
from bench.chains.chain import ONNX, Chain, Node, from_json  # noqa: E402
from bench.chains.random_chain import BATCH, random_chain  # noqa: E402
from bench.chains.shrinking import shrunk  # noqa: E402
from bench.chains.verdict import Verdict, opinions_of, shape_verdict, verdict  # noqa: E402
from bench.differential.part import Array  # noqa: E402


def runtime_values(chain: Chain) -> dict[str, Array]:
    return dict(opinions_of(chain).runtime or {})


def planted(op: str, kind: str, chains: Sequence[Chain]) -> list[Verdict]:
    """Judge chains as if mavcg had a fault of `kind` in every operator `op`, and were the runtime elsewhere."""
    return [_planted(op, kind, chain) for chain in chains]


def _planted(op: str, kind: str, chain: Chain) -> Verdict:
    opinions = opinions_of(chain)
    if opinions.runtime is None:
        return Verdict("skipped")
    values, wrong = dict(opinions.runtime), set[str]()
    shapes = {name: (x.shape, x.dtype.name) for name, x in values.items()}
    for node in chain.nodes:
        if node.op == op and values[node.outputs[0]].size > 1:
            wrong.add(node.outputs[0])
            shapes[node.outputs[0]] = ((1, *shapes[node.outputs[0]][0]), shapes[node.outputs[0]][1])
        elif wrong & set(node.inputs):
            wrong |= set(node.outputs)
    found = shape_verdict(chain, shapes, opinions) if kind == "shape" else None
    if found is not None:
        return found
    with np.errstate(all="ignore"):
        ours = [(values[n] * 1.01 + 1).astype(values[n].dtype) if n in wrong else values[n] for n in chain.outputs]
    return verdict(chain, ours, opinions) if kind == "value" else Verdict("same")


def _first_with(op: str) -> tuple[int, Chain]:
    for number in range(2 * BATCH):
        chain = random_chain(7, number)
        if op in chain.operators and len(chain.nodes) > 8 and _planted(op, "value", chain).status == "different":
            return number, chain
    raise AssertionError(op)


@pytest.mark.parametrize("kind", ["shape", pytest.param("value", marks=pytest.mark.long)])
def test_a_planted_fault_is_shrunk_and_named(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    op = "MatMul"
    number, chain = _first_with(op)
    found = _planted(op, kind, chain)

    small, verdict_of_it = shrunk(chain, found, lambda chains: planted(op, kind, chains), runtime_values, 60)

    assert [node.op for node in small.nodes] == [op]
    assert verdict_of_it.status == "different"
    assert f"{op}: mavcg alone" in verdict_of_it.reason
    assert sum(x.size for x in small.inputs.values()) < 40
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "FOLDER", tmp_path / "build/chains")
    path = results.keep(7, number, "generic", small, verdict_of_it)
    kept = json.loads(path.read_text())
    assert path.stat().st_size < 4096
    assert (kept["seed"], kept["number"], kept["reason"]) == (7, number, verdict_of_it.reason)
    assert kept["command"] == f"python -m bench.chains --file build/chains/7-{number}.json"
    assert _planted(op, kind, from_json(kept["chain"])).status == "different"


@pytest.mark.long
def test_a_chain_without_a_smaller_fault_stays() -> None:
    _, chain = _first_with("MatMul")

    same, _ = shrunk(chain, Verdict("different"), lambda chains: [Verdict("same")] * len(chains), runtime_values, 60)

    assert same == chain


def test_a_scale_stays_an_array_that_is_not_zero() -> None:
    scale = np.array(0.02, np.float32)
    node = Node("QuantizeLinear", ("g_x", "g_s"), ("g_y",))
    chain = Chain(ONNX, "g_", 17, (node,), {"g_s": scale}, {"g_x": np.ones(3, np.float32)}, ("g_y",))
    tried = list[np.ndarray[Any, Any]]()

    def judge(chains: Sequence[Chain]) -> list[Verdict]:
        tried.extend(one.constants[name] for one in chains for name in one.constants)
        return [Verdict("different")] * len(chains)

    shrunk(chain, Verdict("different"), judge, lambda _: {}, 5.0)

    assert tried and all(isinstance(x, np.ndarray) and x.dtype == np.float32 and x > 0 for x in tried)

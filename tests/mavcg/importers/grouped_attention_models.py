"""Models of one GroupQueryAttention over caches, and what they keep of a text."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx

MICROSOFT = "com.microsoft"
ROOM, SIZE, POSITIONS = 12, 16, 40
TOLERANCE = 2e-5


def floats(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def model(
    path: Path,
    batch: int,
    tokens: int,
    heads: tuple[int, int],
    packed: bool,
    valid: bool = False,
    more: dict[str, Any] | None = None,
    names: dict[int, str] | None = None,
    room: int = ROOM,
) -> Path:
    """A model of one node. valid: with query_seqlens. more: attributes. names: further inputs, by number. room: of the
    caches."""
    helper, info = onnx.helper, onnx.helper.make_tensor_value_info
    count, kept = heads
    width = (count + 2 * kept if packed else count) * SIZE
    inputs = [info("q", 1, (batch, tokens, width))]
    inputs += [] if packed else [info(name, 1, (batch, tokens, kept * SIZE)) for name in ("k", "v")]
    inputs += [info(f"past_{name}", 1, (batch, kept, room, SIZE)) for name in ("key", "value")]
    inputs += [info("last", 6, (batch,)), info("total", 6, ())]
    given_names = ["q", *(["", ""] if packed else ["k", "v"]), "past_key", "past_value", "last", "total"]
    attributes = {"num_heads": count, "kv_num_heads": kept, **(more or {})}
    known = []
    if attributes.get("do_rotary"):
        angles = np.arange(POSITIONS)[:, None] / 10 ** np.linspace(0, 2, SIZE // 2)
        for name, table in (("cos", np.cos(angles)), ("sin", np.sin(angles))):
            known.append(onnx.numpy_helper.from_array(table.astype(np.float32), name))
        given_names += ["cos", "sin"]
    if valid:
        given_names += [""] * (16 - len(given_names)) + ["valid"]
        inputs += [info("valid", 6, (batch,))]
    for number, name in (names or {}).items():
        given_names += [""] * (number + 1 - len(given_names))
        given_names[number] = name
        inputs += [info(name, 1, None)]
    outputs = ["y", "present_key", "present_value"]
    node = helper.make_node("GroupQueryAttention", given_names, outputs, "the_node", domain=MICROSOFT, **attributes)
    graph = helper.make_graph([node], "g", inputs, [info(name, 1, None) for name in outputs], known)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


def kept_tokens(total: int, room: int, window: int) -> int:
    """Tokens that a cache of a window's length has, dropped one batch after the other."""
    kept = 0
    for _ in range(total):
        kept = kept + 1 if kept < room else window
    return kept

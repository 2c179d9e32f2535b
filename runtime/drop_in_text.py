"""The table of a library's subgraphs as C, for its entries of other runtimes (csrc/drop_in.h). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from mavcg.runtime.model_text import api_name
from mavcg.specs.model_program import Program
from mavcg.text.safe_text import c_string


@dataclass(frozen=True)
class DropInPart:
    """A subgraph of a library. program: its name is that of the operator in the user's model; fingerprint: digest of
    the subgraph, which the model's node has too."""

    program: Program
    fingerprint: str


def part_symbol(program: Program) -> str:
    """Return the hidden symbol of the table of a subgraph's engine."""
    return f"mavcg_part_{api_name(program.name)}"


def parts_text(library: str, parts: Sequence[DropInPart]) -> str:
    """Return mavcg_parts.h. library: the name of its file, for messages."""
    hidden = '__attribute__((visibility("hidden")))'
    declared = (
        f"extern const mavcg_model_table part_table_{i} __asm__({c_string(part_symbol(part.program))}) {hidden};\n"
        for i, part in enumerate(parts)
    )
    rows = (
        f"    {{{c_string(part.program.name)}, {c_string(part.fingerprint)}, &part_table_{i}}},\n"
        for i, part in enumerate(parts)
    )
    sizes = {
        "PARTS": len(parts),
        "MAX_INPUTS": max(len(part.program.inputs) for part in parts),
        "MAX_OUTPUTS": max(len(part.program.outputs) for part in parts),
    }
    return "".join([
        "/* Subgraphs of a library. Made by mavcg. */\n",
        f"#define LIBRARY_NAME {c_string(library)}\n",
        *(f"#define {name} {value}\n" for name, value in sizes.items()),
        *declared,
        "static const struct drop_in_part drop_in_parts[] = {\n",
        *rows,
        "};\n",
    ])  # fmt: skip

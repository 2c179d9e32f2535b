"""Write the tables of a library's subgraphs and sizes as C (csrc/drop_in.h, csrc/engine_sizes.c); it is pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from mavcg.runtime.c_arrays import static_array
from mavcg.runtime.model_header import CSRC, EXPORTED, api_name, fill_template, shared_declarations, tensor_lists
from mavcg.specs.model_program import Program
from mavcg.text.safe_text import c_string, comment


@dataclass(frozen=True)
class DropInPart:
    """A subgraph of a library in one size.

    fingerprint: digest of the subgraph, which the node of an ONNX model contains too. nodes, inputs, outputs: for a
    TFLite file, indices of operators, and of the tensors that are the program's arguments. graph: number of their
    subgraph among DropInFile.graphs. op: name of the operator in
    the user's model; the program's name if it is empty. size: index of the size; sizes of one operator follow one
    another. input_names, output_names: values of the ONNX model.
    """

    program: Program
    fingerprint: str
    nodes: tuple[int, ...] = ()
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    op: str = ""
    size: int = 0
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    graph: int = 0

    @property
    def name(self) -> str:
        """Return the name of the operator in the user's model."""
        return self.op or self.program.name


@dataclass(frozen=True)
class DropInGraph:
    """A subgraph of a TFLite file as a delegate recognises it.

    nodes: number of its operators. anchor_tensor, anchor_offset: a constant that no other subgraph has at this index,
    and the offset of its data in the file. number: of the subgraph in the file.
    """

    nodes: int
    anchor_tensor: int
    anchor_offset: int
    number: int = 0


@dataclass(frozen=True)
class DropInFile:
    """A TFLite file as a delegate recognises it. graphs: the main subgraph, then those that control flow runs."""

    data: bytes
    graphs: tuple[DropInGraph, ...]


@dataclass(frozen=True)
class ModelFile:
    """An ONNX model's file, or a file of its external data. location: path from the model's folder. digest: BLAKE2b."""

    location: str
    size: int
    digest: bytes


NO_FILE = DropInFile(b"", (DropInGraph(-1, -1, 0),))
DIGEST_BYTES = 32  # of BLAKE2b; as in csrc/drop_in.h


def part_symbol(program: Program) -> str:
    """Return the hidden symbol of the engine table of a subgraph."""
    return f"mavcg_part_{api_name(program.name)}"


def parts_text(
    library: str, parts: Sequence[DropInPart], file: DropInFile = NO_FILE, model_files: Sequence[ModelFile] = ()
) -> str:
    """Return the text of mavcg_parts.h.

    library: name of the library's file, for messages. file: the file that a TFLite model was read from. model_files:
    the files that an ONNX model was read from, the model itself first.
    """
    ops = [(name, len(list(group))) for name, group in groupby(part.name for part in parts)]
    firsts = list(accumulate((count for _, count in ops), initial=0))
    sizes = {
        "PARTS": len(parts),
        "OPS": len(ops),
        "MODEL_FILES": len(model_files),
        "GRAPHS": len(file.graphs),
        "MAX_INPUTS": max(len(part.program.inputs) for part in parts),
        "MAX_OUTPUTS": max(len(part.program.outputs) for part in parts),
    }
    op_rows = (
        f"{{{first}, {count}, op_inputs_{first}, op_outputs_{first}}},"
        for first, (_, count) in zip(firsts, ops, strict=False)
    )
    return "".join(
        [
            "/* Subgraphs of a library. Made by mavcg. */\n",
            f"#define LIBRARY_NAME {c_string(library)}\n",
            *(f"#define {name} {value}\n" for name, value in sizes.items()),
            *_part_declarations(parts),
            *(
                _strings(f"op_{which}_{first}", getattr(parts[first], f"{which[:-1]}_names"))
                for first in firsts[:-1]
                for which in ("inputs", "outputs")
            ),
            static_array("const struct drop_in_part drop_in_parts[]", _part_rows(parts)),
            static_array("const struct drop_in_op drop_in_ops[]", op_rows),
            _model_files_text(model_files),
            _file_text(file),
        ]
    )


def _part_declarations(parts: Sequence[DropInPart]) -> list[str]:
    """Return the declarations of the parts' engine tables, then their lists of nodes, inputs and outputs."""
    hidden = '__attribute__((visibility("hidden")))'
    tables = [
        f"extern const mavcg_model_table part_table_{i} __asm__({c_string(part_symbol(part.program))}) {hidden};\n"
        for i, part in enumerate(parts)
    ]
    lists = [
        _numbers(f"part_{which}_{i}", getattr(part, which))
        for i, part in enumerate(parts)
        for which in ("nodes", "inputs", "outputs")
    ]
    return tables + lists


def _part_rows(parts: Sequence[DropInPart]) -> list[str]:
    """Return the lines of drop_in_parts."""
    return [
        f"{{{c_string(part.name)}, {c_string(part.fingerprint)}, &part_table_{i}, {part.size}, {part.graph}, "
        f"{len(part.nodes)}, part_nodes_{i}, part_inputs_{i}, part_outputs_{i}}},"
        for i, part in enumerate(parts)
    ]


def _model_files_text(model_files: Sequence[ModelFile]) -> str:
    """Return the table of an ONNX model's files; without any it has one unused line."""
    lines = (
        f"{{{c_string(each.location)}, {each.size}u, {{{', '.join(map(str, each.digest))}}}}}," for each in model_files
    )
    return static_array("const struct drop_in_model_file drop_in_model_files[]", lines, zero='{"", 0, {0}},')


def _file_text(file: DropInFile) -> str:
    """Return the description of a TFLite file, with the digest by which a delegate recognises it."""
    digest = hashlib.blake2b(file.data, digest_size=DIGEST_BYTES).digest()
    graphs = (
        f"{{{graph.anchor_offset}u, {graph.nodes}, {graph.anchor_tensor}, {graph.number}}}," for graph in file.graphs
    )
    return (
        f"static const struct drop_in_file drop_in_file = {{{len(file.data)}u, {{{', '.join(map(str, digest))}}}}};\n"
        + static_array("const struct drop_in_graph drop_in_graphs[]", graphs)
    )


def _numbers(name: str, numbers: Sequence[int]) -> str:
    return static_array(f"const int32_t {name}[]", (f"{number}," for number in numbers), zero="0,")


def _strings(name: str, texts: Sequence[str]) -> str:
    return static_array(f"const char *const {name}[]", (f"{c_string(text)}," for text in texts), zero="NULL,")


def sizes_text(parts: Sequence[DropInPart]) -> str:
    """Return the text of mavcg_sizes.h: the tables of one model's engines, one for each size."""
    hidden = '__attribute__((visibility("hidden")))'
    return "".join(
        [
            "/* Sizes of a model. Made by mavcg. */\n",
            f'#define MODEL_API "{EXPORTED}{api_name(parts[0].program.name)}"\n',
            f"#define SIZES {len(parts)}\n",
            *(
                f"extern const mavcg_model_table size_{i} __asm__({c_string(part_symbol(part.program))}) {hidden};\n"
                for i, part in enumerate(parts)
            ),
            static_array(
                "const mavcg_model_table *const size_tables[SIZES]", (f"&size_{i}," for i in range(len(parts)))
            ),
        ]
    )


def sized_header(programs: Sequence[Program], threads: int = 1) -> str:
    """Return the text of <name>.h for a library of several sizes. threads: default of a context."""
    name = programs[0].name
    guard = f"MAVCG_SIZES_{api_name(name).upper()}_H"
    declared = fill_template(_DECLARED, {"EXPORTED": EXPORTED + api_name(name)})
    return (
        f"/* Model {comment(name)}. Made by mavcg.\n *\n * It has {len(programs)} sizes. mavcg_find_size(dims) returns "
        f"the functions of one: create, run, destroy.\n * Threads of a context by default: {threads} (0: the library "
        f"chooses).\n *\n{size_lists(programs)} */\n#ifndef {guard}\n#define {guard}\n\n{shared_declarations()}\n"
        f"{(CSRC / 'sizes_api.h').read_text()}\n{declared}\n#endif\n"
    )


def size_lists(programs: Sequence[Program]) -> str:
    """Return the lines of a comment that lists inputs and outputs of each size."""
    return "".join(f" * Size {i}.\n{tensor_lists(program)}" for i, program in enumerate(programs))


_DECLARED = """\
#ifdef __cplusplus
extern "C" {
#endif
/* mavcg_sizes_api and mavcg_find_size under names that no other library has, for programs that use several. */
const mavcg_sizes_table *@EXPORTED@_sizes(void);
const mavcg_model_table *@EXPORTED@_find_size(const int64_t *const *dims);
#ifdef __cplusplus
}
#endif
"""

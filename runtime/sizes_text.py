"""Write the table of a library's sizes as C (csrc/engine_sizes.c). It is pure."""

from collections.abc import Sequence

from mavcg.runtime.drop_in_text import DropInPart, part_symbol
from mavcg.runtime.model_header import CSRC, fill_template, shared_declarations, tensor_lists
from mavcg.runtime.model_names import EXPORTED, api_name
from mavcg.specs.model_program import Program
from mavcg.text.safe_text import c_string, comment


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
            "static const mavcg_model_table *const size_tables[SIZES] = {\n",
            *(f"    &size_{i},\n" for i in range(len(parts))),
            "};\n",
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

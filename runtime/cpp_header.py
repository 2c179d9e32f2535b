"""Write the C++ header of a model library of one or several sizes: a class over the C functions.

Its functions have an argument for each tensor. It is pure: values in, text out.
"""

from collections.abc import Mapping, Sequence

from mavcg.runtime.cpp_header_template import (
    BOUNDED_DESCRIPTIONS,
    CONSTRUCTORS,
    COUNTED_DESCRIPTIONS,
    DESCRIPTIONS,
    HEADER,
    PRIVATE,
    SIZED_CONSTRUCTORS,
    SIZED_DESCRIPTIONS,
    SIZED_PRIVATE,
)
from mavcg.runtime.drop_in_text import size_lists
from mavcg.runtime.model_header import EXPORTED, api_name, fill_template, tensor_lists
from mavcg.specs.model_program import Program, ProgramTensor
from mavcg.text.safe_text import comment

# f16 by its bits: C++20 has no such type. bool by bytes, of which each is 0 or 1.
_ELEMENTS = {
    "f32": "float",
    "f64": "double",
    "f16": "std::uint16_t",
    "bool": "std::uint8_t",
    **{f"{sign}{bits}": f"std::{'u' if sign == 'u' else ''}int{bits}_t" for sign in "iu" for bits in (8, 16, 32, 64)},
}


def cpp_header_text(program: Program) -> str:
    """Return the text of <name>.hpp, which includes <name>.h and needs C++20.

    Headers of several models may be included together.
    """
    name = api_name(program.name)
    exported = EXPORTED + name
    parts = {
        "CALL": f"{exported}_",
        "OWNED": f"{name}_context",
        "ABOUT": "a class that owns a context, and a std::span for each tensor",
        "CONSTRUCTORS": CONSTRUCTORS,
        "DESCRIPTIONS": fill_template(
            DESCRIPTIONS + (COUNTED_DESCRIPTIONS if program.counted else ""),
            {"EXPORTED": exported, "OUTS": str(len(program.outputs))},
        )
        if not program.dimensions
        else _bounded_descriptions(program, exported),
        "PRIVATE": fill_template(PRIVATE, {"EXPORTED": exported, "NAME": name}),
    }
    return _header_text(program, parts, tensor_lists(program))


def _bounded_descriptions(program: Program, exported: str) -> str:
    """Return the functions of a model with a bounded dimension that set its length, and describe its tensors."""
    dims = [f"input{i}" for i in range(len(program.inputs))]
    values = {
        "EXPORTED": exported,
        "SHAPES": ", ".join(
            f"const std::array<std::int64_t, {len(t.type.shape)}> &{name}"
            for name, t in zip(dims, program.inputs, strict=True)
        ),
        "DIMS": ", ".join(f"{name}.data()" for name in dims),
        "INS": str(len(program.inputs)),
        "OUTS": str(len(program.outputs)),
    }
    return fill_template(BOUNDED_DESCRIPTIONS, values)


def sized_cpp_header_text(programs: Sequence[Program]) -> str:
    """Return the text of <name>.hpp for a library of several sizes, in which constructors take input shapes.

    programs: the program of each size; the first has the library's name. Their inputs agree in number, element types
    and ranks.
    """
    first = programs[0]
    exported = EXPORTED + api_name(first.name)
    shapes = [f"shape{i}" for i in range(len(first.inputs))]
    values = {
        "EXPORTED": exported,
        "SHAPES": ", ".join(
            f"const std::array<std::int64_t, {len(t.type.shape)}> &{shape}"
            for shape, t in zip(shapes, first.inputs, strict=True)
        ),
        "NAMES": ", ".join(shapes),
        "DIMS": ", ".join(f"{shape}.data()" for shape in shapes),
    }
    parts = {
        "CALL": "owned_.get_deleter().size->",
        "OWNED": "void",
        "ABOUT": f"a class that owns a context of one of the {len(programs)} sizes, and a std::span for each tensor",
        "CONSTRUCTORS": fill_template(SIZED_CONSTRUCTORS, values),
        "DESCRIPTIONS": fill_template(SIZED_DESCRIPTIONS, values),
        "PRIVATE": fill_template(SIZED_PRIVATE, values),
    }
    return _header_text(first, parts, size_lists(programs))


def _header_text(program: Program, parts: Mapping[str, str], lists: str) -> str:
    """Fill in the template. program: has the tensors of the arguments. lists: comment that lists all tensors."""
    name = api_name(program.name)
    inputs, outputs = _arguments("input", program.inputs, "const "), _arguments("output", program.outputs, "")
    arrays = [*inputs, *outputs]
    return fill_template(
        HEADER,
        {
            "TITLE": comment(program.name),
            **parts,
            "TENSORS": lists,
            "GUARD": f"MAVCG_MODEL_{name.upper()}_HPP",
            "NAME": name,
            "ARGUMENTS": ", ".join(arrays),
            "AND": ", " if arrays else "",
            "FORWARD": "".join(f", {argument.rsplit(' ', 1)[1]}" for argument in arrays),
            "INPUTS": _pointers("const void *", "inputs", "input", len(program.inputs)),
            "OUTPUTS": _pointers("void *", "outputs", "output", len(program.outputs)),
        },
    )


def _arguments(kind: str, tensors: Sequence[ProgramTensor], const: str) -> list[str]:
    return [f"std::span<{const}{_ELEMENTS[t.type.dtype]}> {kind}{i}" for i, t in enumerate(tensors)]


def _pointers(pointer: str, name: str, kind: str, count: int) -> str:
    """Return the definitions of the arrays of pointers and of sizes; without tensors each has one unused element."""
    items = [f"{kind}{i}" for i in range(count)]
    pointers = ", ".join(f"{item}.data()" for item in items) or "nullptr"
    sizes = ", ".join(f"{item}.size_bytes()" for item in items) or "0"
    return (
        f"        {pointer}const {name}[] = {{{pointers}}};\n        const std::size_t {kind}_bytes[] = {{{sizes}}};\n"
    )

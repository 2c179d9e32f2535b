"""C tables of a program's bounded dimensions: where a run's lengths are read, and what follows from them.

The engine (csrc/engine_shape.c) reads each length, in steps, from an axis of an input, computes all counts of the
program from these, once for each change, and compares every axis of the inputs with them. Steps and operands have
numbers of counts. `add_counts` in the tables is generated: the counts of graph/counts.py as C.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from mavcg.errors import MavcgError
from mavcg.graph.counts import Count, affine_of, bounds_of, extent_of, is_symbolic, lengths_in, text_of
from mavcg.runtime.c_arrays import static_array
from mavcg.specs.model_program import Program, ProgramState, ProgramTensor
from mavcg.text.safe_text import c_string

_FIXED = -1  # in place of the number of a count: the number of the longest lengths holds for every run
_KEPT = 0xFFFFFFFF  # NO_INPUT of csrc/engine_shape.c
_MOST_COUNT = (1 << 31) - 1  # counts are words of 32 bits, and rows have 31


def counts_of(program: Program) -> tuple[Count, ...]:
    """Return the counts that a run needs, each once, in the order of their numbers in the tables."""
    used = chain(
        (axis for tensor in _tensors(program) for axis in tensor.axes if is_symbolic(axis)),
        program.grown_lengths.values(),
        (step.row_count for step in program.steps),
        (loop.trip_count for loop in program.loops),
        (operand.count for step in program.steps for operand in step.operands),
        (count for step in program.steps for operand in step.operands for _, count in operand.stride_counts),
    )
    return tuple(dict.fromkeys(count for count in used if count is not None))


def _tensors(program: Program) -> tuple[ProgramTensor | ProgramState, ...]:
    return (*program.inputs, *program.outputs, *program.states)


def check_counts(program: Program) -> None:
    """Raise MavcgError unless every count is that of the plan at the longest lengths, and at least 1 at the shortest,
    or 0 where a dimension may be, but for iterations of loops.

    As counts of rows and axes grow with each length (graph/counts.py), no run has more rows or larger tensors than were
    planned.
    """
    nothing = any(not dimension.least for dimension in program.dimensions)
    for tensor in _tensors(program):
        if tensor.axes and len(tensor.axes) != len(tensor.type.shape):
            raise MavcgError(f"tensor '{tensor.name}': {len(tensor.axes)} axes for {tensor.type}")
        axes = (tensor.next_axes or tensor.axes) if isinstance(tensor, ProgramState) else tensor.axes
        for axis, planned in zip(axes, tensor.type.shape, strict=False):
            _check_count(axis, planned, f"tensor '{tensor.name}'", program, nothing)
    for step in program.steps:
        if step.row_count is not None:
            _check_count(step.row_count, step.rows, f"step '{step.name}'", program, nothing)
        for operand in step.operands:
            if operand.count is not None:
                _check_count(operand.count, None, f"step '{step.name}'", program, True)
            for number, count in operand.stride_counts:
                _check_count(count, abs(dict(operand.strides)[number]), f"step '{step.name}'", program, nothing)
    for loop in program.loops:
        if loop.trip_count is not None:
            _check_count(loop.trip_count, loop.trips, f"loop {loop.number}", program, False)
    least = {dimension.name: dimension.least for dimension in program.dimensions}
    for name, count in program.grown_lengths.items():
        if bounds_of(count, program.dimensions)[0] < least[name]:
            raise MavcgError(
                f"model {program.name}: the length of {name} becomes {text_of(count)}, which may be less than its "
                f"least one, {least[name]}; give a smaller least length"
            )
    _sources(program)


def _check_count(count: Count, planned: int | None, where: str, program: Program, nothing: bool) -> None:
    """Raise MavcgError for a count that is not the planned one, if there is one, or is too small; nothing: 0 is not."""
    try:
        least, most = (bounds_of if planned is None else extent_of)(count, program.dimensions)
    except MavcgError as error:
        raise MavcgError(f"{where}: {error}") from error
    if planned is not None and most != planned:
        raise MavcgError(f"{where}: {planned} is planned, and {text_of(count)} is {most} at the longest lengths")
    if least < (not nothing) or most > _MOST_COUNT:
        raise MavcgError(f"{where}: {text_of(count)} is {least} to {most}; a run counts 1 to {_MOST_COUNT}")


def count_tables_text(program: Program, moving: Sequence[Count | None]) -> str:
    """Return the tables of a program with bounded dimensions; "" without them.

    moving: the counts of the strides of moving_table, in bytes; None for one that is the same in all runs.
    """
    dimensions, counts = program.dimensions, counts_of(program)
    if not dimensions:
        return ""
    number = {count: i for i, count in enumerate(counts)}
    numbers = {dimension.name: f"length[{i}]" for i, dimension in enumerate(dimensions)}
    computed = "".join(
        f"    count[{i}] = (uint32_t)({text_of(count, numbers.__getitem__)});\n" for i, count in enumerate(counts)
    )
    of_steps = (_FIXED if step.row_count is None else number[step.row_count] for step in program.steps)
    of_loops = (_FIXED if loop.trip_count is None else number[loop.trip_count] for loop in program.loops)
    tables: dict[str, Sequence[ProgramTensor | ProgramState]] = {
        "inputs": program.inputs,
        "outputs": program.outputs,
        "states": program.states,
    }
    grown = program.grown_lengths
    kept = (
        f"{{{i}, {number[grown[each.name]]}, {bounds_of(grown[each.name], dimensions)[1]}}},"
        for i, each in enumerate(dimensions)
        if each.name in grown
    )
    of_strides = (_FIXED if count is None else number[count] for count in moving)
    return (
        static_array(
            "const mavcg_dimension dimension_table[]",
            (f"{{{c_string(each.name)}, {each.bounds[0]}, {each.bounds[1]}}}," for each in dimensions),
        )
        + static_array("const int64_t dimension_steps[]", (f"{each.step}," for each in dimensions))
        + static_array(
            "const struct engine_length length_table[]", (f"{{{', '.join(map(str, s))}}}," for s in _sources(program))
        )
        + static_array("const struct engine_kept kept_table[]", kept, zero="{0},")
        + f"static inline void add_counts(const int64_t *length, uint32_t *count) {{\n{computed}}}\n"
        + _numbers("step_counts", of_steps)
        + _numbers("loop_counts", of_loops)
        + _numbers("moving_counts", of_strides)
        + "".join(
            _numbers(f"{which}_counts", (number.get(axis, _FIXED) for t in tensors for axis in t.axes or t.type.shape))
            for which, tensors in tables.items()
        )
    )


def _numbers(name: str, numbers: Iterable[int]) -> str:
    return static_array(f"const int32_t {name}[]", (f"{number}," for number in numbers), zero=f"{_FIXED},")


def _sources(program: Program) -> list[tuple[int, int, int, int]]:
    """Return (input, axis, factor, addend) for each dimension: that axis has factor * length + addend elements.

    The context holds that of a state that grows. Raises: MavcgError for another dimension that no input tells.
    """
    sources = []
    for dimension in program.dimensions:
        if dimension.name in program.grown_lengths:
            sources.append((_KEPT, 0, 1, 0))
            continue
        found = [
            (i, axis, *affine)
            for i, tensor in enumerate(program.inputs)
            for axis, count in enumerate(tensor.axes)
            if lengths_in(count) == {dimension.name} and (affine := affine_of(count)) is not None
        ]
        if not found:
            raise MavcgError(f"model {program.name}: no input has an axis that tells the length of {dimension}")
        sources.append(found[0])
    return sources

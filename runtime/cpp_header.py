"""The C++ header of a model library: a class over the C functions, with an argument per tensor.

Pure: values in, text out.
"""

from collections.abc import Sequence

from mavcg.runtime.model_text import EXPORTED, api_name, fill_template, tensor_lists
from mavcg.specs.model_program import Program, ProgramTensor
from mavcg.text.safe_text import comment

# f16 by its bits: C++20 has no such type. bool by bytes, of which each is 0 or 1.
_ELEMENTS = {
    "f32": "float", "f64": "double", "f16": "std::uint16_t", "bool": "std::uint8_t",
    **{f"{sign}{bits}": f"std::{'u' if sign == 'u' else ''}int{bits}_t" for sign in "iu" for bits in (8, 16, 32, 64)},
}  # fmt: skip


def cpp_header_text(program: Program) -> str:
    """Return <name>.hpp. It includes <name>.h, and needs C++20; headers of several models may be included together."""
    name = api_name(program.name)
    inputs, outputs = _arguments("input", program.inputs, "const "), _arguments("output", program.outputs, "")
    arrays = [*inputs, *outputs]
    return fill_template(
        _TEMPLATE,
        {
            "TITLE": comment(program.name),
            "TENSORS": tensor_lists(program),
            "GUARD": f"MAVCG_MODEL_{name.upper()}_HPP",
            "NAME": name,
            "EXPORTED": EXPORTED + name,
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
    """Return definitions of the arrays of pointers and of sizes; without tensors each has one unused element."""
    items = [f"{kind}{i}" for i in range(count)]
    pointers = ", ".join(f"{item}.data()" for item in items) or "nullptr"
    sizes = ", ".join(f"{item}.size_bytes()" for item in items) or "0"
    return (
        f"        {pointer}const {name}[] = {{{pointers}}};\n        const std::size_t {kind}_bytes[] = {{{sizes}}};\n"
    )


_TEMPLATE = """\
/* Model @TITLE@. Made by mavcg.
 *
@TENSORS@ *
 * The interface of @NAME@.h for C++20: a class that owns a context, and a std::span for each tensor (f16 as its bits in
 * std::uint16_t, bool as std::uint8_t). Functions return an enum mavcg_status. Where MAVCG_EXCEPTIONS is defined before
 * this header is included, faults (negative statuses) are thrown as mavcg::error in their place. */
#ifndef @GUARD@
#define @GUARD@

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "@NAME@.h"

#ifdef MAVCG_EXCEPTIONS
#ifndef __cpp_exceptions
#error "MAVCG_EXCEPTIONS: the compiler was told to leave exceptions out (-fno-exceptions)"
#endif
#ifndef MAVCG_ERROR_CLASS
#define MAVCG_ERROR_CLASS
#include <stdexcept>
namespace mavcg {
/* A fault that a function of a model library returned. */
class error : public std::runtime_error {
public:
    error(int status, const char *text) : std::runtime_error(text), status_(status) {}
    int status() const noexcept { return status_; }

private:
    int status_;
};
} // namespace mavcg
#endif
#endif

namespace mavcg_@NAME@ {
/* With and without exceptions the class is another one: both may be in one program. */
#ifdef MAVCG_EXCEPTIONS
inline namespace throwing {
#define MAVCG_NOEXCEPT
#else
inline namespace returning {
#define MAVCG_NOEXCEPT noexcept
#endif

/* A context: memory and threads of the model's runs. It may be moved, and is destroyed with its owner. */
class context {
public:
    /* threads: 0, the library chooses. flags: of enum mavcg_flags. status() says whether it can be used. */
    explicit context(int threads, std::uint32_t flags = 0) MAVCG_NOEXCEPT {
        const mavcg_options options = {threads, flags, {0, 0}};
        create(&options);
    }

    /* With the defaults that the library was built with. */
    context() MAVCG_NOEXCEPT { create(nullptr); }

    /* The result of its creation: MAVCG_OK, MAVCG_ERROR_OPTION, _CPU or _MEMORY. */
    int status() const noexcept { return status_; }
    explicit operator bool() const noexcept { return owned_ != nullptr; }

    /* Compute the outputs. A span of another size than the model's: MAVCG_ERROR_SIZE. */
    int run(@ARGUMENTS@) MAVCG_NOEXCEPT {
@INPUTS@@OUTPUTS@        return checked(
            @EXPORTED@_run_sized(owned_.get(), inputs, input_bytes, outputs, output_bytes));
    }

    /* As run; step_ns gets the nanoseconds of each step of steps(), and has their number of elements. */
    int profile(std::span<double> step_ns@AND@@ARGUMENTS@) MAVCG_NOEXCEPT {
        if (step_ns.size() != steps().size()) return checked(MAVCG_ERROR_SIZE);
        if (const int sizes = fit(@EXPORTED@_inputs, @EXPORTED@_outputs@FORWARD@); sizes != MAVCG_OK)
            return checked(sizes);
@INPUTS@@OUTPUTS@        static_cast<void>(input_bytes);
        static_cast<void>(output_bytes);
        return checked(@EXPORTED@_profile(owned_.get(), inputs, outputs, step_ns.data()));
    }

    /* From another thread: end the active run before its next step. */
    int cancel() MAVCG_NOEXCEPT { return checked(@EXPORTED@_cancel(owned_.get())); }

    /* Threads that take part in its runs, the caller's included. */
    int threads() const noexcept { return @EXPORTED@_threads(owned_.get()); }

    /* For the functions of @NAME@.h. It stays this object's. */
    @NAME@_context *get() const noexcept { return owned_.get(); }

    static std::span<const mavcg_tensor> inputs() noexcept { return listed(@EXPORTED@_inputs); }
    static std::span<const mavcg_tensor> outputs() noexcept { return listed(@EXPORTED@_outputs); }
    static std::span<const mavcg_step> steps() noexcept { return listed(@EXPORTED@_steps); }
    static const char *error_text(int status) noexcept { return @EXPORTED@_error_text(status); }

private:
    struct destroyer {
        void operator()(@NAME@_context *owned) const noexcept { @EXPORTED@_destroy(owned); }
    };

    void create(const mavcg_options *options) MAVCG_NOEXCEPT {
        @NAME@_context *made = nullptr;
        status_ = @EXPORTED@_create(options, &made);
        owned_.reset(made);
        checked(status_);
    }

    static int checked(int status) MAVCG_NOEXCEPT {
#ifdef MAVCG_EXCEPTIONS
        if (status < 0) throw mavcg::error(status, error_text(status));
#endif
        return status;
    }

    template <class Item> static std::span<const Item> listed(const Item *(*list)(std::size_t *)) noexcept {
        std::size_t count = 0;
        const Item *items = list(&count);
        return {items, count};
    }

    /* MAVCG_ERROR_SIZE unless the spans have the sizes of the tensors, inputs first. */
    template <class List, class... Spans> static int fit(List ins, List outs, const Spans &...spans) noexcept {
        const std::size_t bytes[] = {spans.size_bytes()..., 0};
        std::size_t index = 0;
        for (List list : {ins, outs})
            for (const mavcg_tensor &tensor : listed(list))
                if (tensor.bytes != bytes[index++]) return MAVCG_ERROR_SIZE;
        return MAVCG_OK;
    }

    std::unique_ptr<@NAME@_context, destroyer> owned_;
    int status_ = MAVCG_OK;
};

#undef MAVCG_NOEXCEPT
} // inline namespace
} // namespace mavcg_@NAME@

#endif
"""

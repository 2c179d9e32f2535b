"""The text of the C++ header of model libraries (cpp_header.py): the class, and its variants for several sizes and for
a bounded dimension."""

HEADER = """\
/* Model @TITLE@. Made by mavcg.
 *
@TENSORS@ *
 * The interface of @NAME@.h for C++20: @ABOUT@
 * (f16 as its bits in std::uint16_t, bool as std::uint8_t). Functions return an enum mavcg_status. Where
 * MAVCG_EXCEPTIONS is defined before this header is included, faults (negative statuses) are thrown as mavcg::error in
 * their place. */
#ifndef @GUARD@
#define @GUARD@

#include <array>
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
@CONSTRUCTORS@    int status() const noexcept { return status_; }
    explicit operator bool() const noexcept { return owned_ != nullptr; }

    /* Compute the outputs. A span of another size than the model's: MAVCG_ERROR_SIZE. */
    int run(@ARGUMENTS@) MAVCG_NOEXCEPT {
@INPUTS@@OUTPUTS@        return checked(
            @CALL@run_sized(owned_.get(), inputs, input_bytes, outputs, output_bytes));
    }

    /* As run; step_ns gets the nanoseconds of each step of steps(), and has their number of elements. */
    int profile(std::span<double> step_ns@AND@@ARGUMENTS@) MAVCG_NOEXCEPT {
        if (step_ns.size() != steps().size()) return checked(MAVCG_ERROR_SIZE);
        if (const int sizes = fit(inputs(), outputs()@FORWARD@); sizes != MAVCG_OK)
            return checked(sizes);
@INPUTS@@OUTPUTS@        static_cast<void>(input_bytes);
        static_cast<void>(output_bytes);
        return checked(@CALL@profile(owned_.get(), inputs, outputs, step_ns.data()));
    }

    /* From another thread: end the active run before its next step. */
    int cancel() MAVCG_NOEXCEPT { return checked(@CALL@cancel(owned_.get())); }

    /* Of models with states: set them to their initial values; copy them to a buffer of state_size() bytes, and back. A
     * buffer of another size: MAVCG_ERROR_SIZE. */
    int reset() MAVCG_NOEXCEPT { return checked(@CALL@reset(owned_.get())); }
    std::size_t state_size() const noexcept { return @CALL@state_size(owned_.get()); }
    int save_state(std::span<std::byte> saved) MAVCG_NOEXCEPT {
        return checked(@CALL@state_save(owned_.get(), saved.data(), saved.size()));
    }
    int restore_state(std::span<const std::byte> saved) MAVCG_NOEXCEPT {
        return checked(@CALL@state_restore(owned_.get(), saved.data(), saved.size()));
    }

    /* Threads that take part in its runs, the caller's included. */
    int threads() const noexcept { return @CALL@threads(owned_.get()); }

    /* For the functions of @NAME@.h. It stays this object's. */
    @OWNED@ *get() const noexcept { return owned_.get(); }

@DESCRIPTIONS@
private:
@PRIVATE@
    static int checked(int status) MAVCG_NOEXCEPT {
#ifdef MAVCG_EXCEPTIONS
        if (status < 0) throw mavcg::error(status, error_text(status));
#endif
        return status;
    }

    /* MAVCG_ERROR_SIZE unless the spans have the sizes of the tensors, inputs first. */
    using tensors = std::span<const mavcg_tensor>;
    template <class... Spans> static int fit(tensors ins, tensors outs, const Spans &...spans) noexcept {
        const std::size_t bytes[] = {spans.size_bytes()..., 0};
        std::size_t index = 0;
        for (tensors list : {ins, outs})
            for (const mavcg_tensor &tensor : list)
                if (tensor.bytes != bytes[index++]) return MAVCG_ERROR_SIZE;
        return MAVCG_OK;
    }

    std::unique_ptr<@OWNED@, destroyer> owned_;
    int status_ = MAVCG_OK;
};

#undef MAVCG_NOEXCEPT
} // inline namespace
} // namespace mavcg_@NAME@

#endif
"""

CONSTRUCTORS = """\
    /* threads: 0, the library chooses. flags: of enum mavcg_flags. status() says whether it can be used. */
    explicit context(int threads, std::uint32_t flags = 0) MAVCG_NOEXCEPT {
        const mavcg_options options = {threads, flags, {0, 0}};
        create(&options);
    }

    /* With the defaults that the library was built with. */
    context() MAVCG_NOEXCEPT { create(nullptr); }

    /* The result of its creation: MAVCG_OK, MAVCG_ERROR_OPTION, _CPU or _MEMORY. */
"""

SIZED_CONSTRUCTORS = """\
    /* Of the size whose inputs have these shapes. threads: 0, the library chooses. flags: of enum mavcg_flags. status()
     * says whether it can be used. */
    context(@SHAPES@, int threads, std::uint32_t flags = 0) MAVCG_NOEXCEPT {
        const mavcg_options options = {threads, flags, {0, 0}};
        create(find(@NAMES@), &options);
    }

    /* With the defaults that the library was built with. */
    explicit context(@SHAPES@) MAVCG_NOEXCEPT {
        create(find(@NAMES@), nullptr);
    }

    /* The result of its creation: MAVCG_OK, MAVCG_ERROR_SIZE (the library was not built for these shapes), _OPTION,
     * _CPU or _MEMORY. */
"""

DESCRIPTIONS = """\
    static std::span<const mavcg_tensor> inputs() noexcept { return listed(@EXPORTED@_inputs); }
    static std::span<const mavcg_tensor> outputs() noexcept { return listed(@EXPORTED@_outputs); }
    static std::span<const mavcg_tensor> states() noexcept { return listed(@EXPORTED@_states); }
    static std::span<const mavcg_step> steps() noexcept { return listed(@EXPORTED@_steps); }
    static const char *error_text(int status) noexcept { return @EXPORTED@_error_text(status); }
"""

COUNTED_DESCRIPTIONS = """\

    /* The outputs as the last run of this context made them, at the lengths that it decided; outputs() has the longest,
     * which the spans of run() have. */
    std::span<const mavcg_tensor> present_outputs() const noexcept {
        return {@EXPORTED@_context_outputs(get()), @OUTS@};
    }
"""

BOUNDED_DESCRIPTIONS = """\
    /* Set the shapes of the inputs for the runs that follow; a new context has the longest ones. MAVCG_ERROR_SIZE for
     * shapes out of bounds, which change nothing. */
    int set_shape(@SHAPES@) MAVCG_NOEXCEPT {
        const std::int64_t *const dims[] = {@DIMS@};
        return checked(@EXPORTED@_set_shape(owned_.get(), dims));
    }

    /* At the context's shape. */
    std::span<const mavcg_tensor> inputs() const noexcept { return {@EXPORTED@_context_inputs(get()), @INS@}; }
    std::span<const mavcg_tensor> outputs() const noexcept { return {@EXPORTED@_context_outputs(get()), @OUTS@}; }
    static std::span<const mavcg_step> steps() noexcept { return listed(@EXPORTED@_steps); }
    static const char *error_text(int status) noexcept { return @EXPORTED@_error_text(status); }
"""

SIZED_DESCRIPTIONS = """\
    /* Of the context's size; of the first one, where status() is MAVCG_ERROR_SIZE. */
    std::span<const mavcg_tensor> inputs() const noexcept {
        const mavcg_model_table *size = owned_.get_deleter().size;
        return {size->inputs, size->input_count};
    }
    std::span<const mavcg_tensor> outputs() const noexcept {
        const mavcg_model_table *size = owned_.get_deleter().size;
        return {size->outputs, size->output_count};
    }
    std::span<const mavcg_tensor> states() const noexcept {
        const mavcg_model_table *size = owned_.get_deleter().size;
        return {size->states, size->state_count};
    }
    std::span<const mavcg_step> steps() const noexcept {
        const mavcg_model_table *size = owned_.get_deleter().size;
        return {size->steps, size->step_count};
    }
    static const char *error_text(int status) noexcept { return sizes()[0]->error_text(status); }

    /* All sizes of the library, and the one whose inputs have these shapes, nullptr where there is none. */
    static std::span<const mavcg_model_table *const> sizes() noexcept {
        const mavcg_sizes_table *all = @EXPORTED@_sizes();
        return {all->models, all->count};
    }
    static const mavcg_model_table *find(@SHAPES@) noexcept {
        const std::int64_t *const dims[] = {@DIMS@};
        return @EXPORTED@_find_size(dims);
    }
"""

PRIVATE = """\
    struct destroyer {
        void operator()(@NAME@_context *owned) const noexcept { @EXPORTED@_destroy(owned); }
    };

    void create(const mavcg_options *options) MAVCG_NOEXCEPT {
        @NAME@_context *made = nullptr;
        status_ = @EXPORTED@_create(options, &made);
        owned_.reset(made);
        checked(status_);
    }

    template <class Item> static std::span<const Item> listed(const Item *(*list)(std::size_t *)) noexcept {
        std::size_t count = 0;
        const Item *items = list(&count);
        return {items, count};
    }
"""

SIZED_PRIVATE = """\
    struct destroyer {
        const mavcg_model_table *size;
        void operator()(void *owned) const noexcept { size->destroy(owned); }
    };

    /* size: nullptr for one that the library does not have; calls then go to the first one's functions, which return
     * MAVCG_ERROR_NULL. */
    void create(const mavcg_model_table *size, const mavcg_options *options) MAVCG_NOEXCEPT {
        void *made = nullptr;
        status_ = size ? size->create(options, &made) : MAVCG_ERROR_SIZE;
        owned_ = {made, destroyer{size ? size : sizes()[0]}};
        checked(status_);
    }
"""

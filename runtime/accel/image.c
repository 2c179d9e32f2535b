/* Reads a program's ELF file. Nothing in it is trusted: every offset, count and size is checked before its use. */
#include "image.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SECTIONS = 64, MOST_VALUES = 1 << 16, MOST_SEGMENTS = 1 << 12 };
static const uint64_t MOST_CYCLES = 1ull << 40, NS_OF_KHZ = 1000000;

/* What a program's file has of ELF, 64-bit and little-endian: macOS and bare systems have no elf.h. */
struct file_header {
    unsigned char ident[16];
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, segments, sections;
    uint32_t flags;
    uint16_t header_bytes, segment_bytes, segment_count, section_bytes, section_count, names_index;
};

struct section {
    uint32_t name, type;
    uint64_t flags, address, offset, size;
    uint32_t link, info;
    uint64_t alignment, entry_bytes;
};

enum section_type { CONTENTS = 1, NAMES = 3, NO_CONTENTS = 8 };

int fail(char *message, int status, const char *format, ...) {
    if (message) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(message, MESSAGE_BYTES, format, arguments);
        va_end(arguments);
    }
    return status;
}

static int read_file(const char *path, struct image *image, char *message) {
    FILE *file = fopen(path, "rb");
    if (!file) return fail(message, MAVCG_ACCEL_BAD_FILE, "%.180s: cannot be opened", path);
    long size = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    if (size < (long)sizeof(struct file_header) || fseek(file, 0, SEEK_SET)) {
        fclose(file);
        return fail(message, MAVCG_ACCEL_BAD_FILE, "%.180s: no program of mavcg accel build", path);
    }
    image->file = malloc((size_t)size);
    image->file_bytes = (size_t)size;
    size_t count = image->file ? fread(image->file, 1, image->file_bytes, file) : 0;
    fclose(file);
    if (!image->file) return fail(message, MAVCG_ACCEL_NO_MEMORY, "%.180s: no memory for its %ld bytes", path, size);
    if (count != image->file_bytes) return fail(message, MAVCG_ACCEL_BAD_FILE, "%.180s: cannot be read", path);
    return MAVCG_ACCEL_OK;
}

static bool section_header(const struct image *image, const struct file_header *head, uint32_t index,
                           struct section *header) {
    if (head->sections > image->file_bytes || index >= head->section_count ||
        image->file_bytes - head->sections < (uint64_t)head->section_count * sizeof *header)
        return false;
    memcpy(header, image->file + head->sections + (uint64_t)index * sizeof *header, sizeof *header);
    return header->type == NO_CONTENTS ||
           (header->offset <= image->file_bytes && header->size <= image->file_bytes - header->offset);
}

static bool find_section(const struct image *image, const char *name, struct section *header) {
    struct file_header head;
    struct section names;
    memcpy(&head, image->file, sizeof head);
    static const unsigned char magic[] = {0x7f, 'E', 'L', 'F', 2 /* 64 bits */, 1 /* little-endian */};
    if (memcmp(head.ident, magic, sizeof magic) != 0 || head.section_bytes != sizeof(struct section) ||
        head.section_count > MOST_SECTIONS || !section_header(image, &head, head.names_index, &names) ||
        names.type != NAMES)
        return false;
    size_t length = strlen(name) + 1;
    for (uint32_t i = 0; i < head.section_count; i++)
        if (section_header(image, &head, i, header) && header->name <= names.size &&
            names.size - header->name >= length && memcmp(image->file + names.offset + header->name, name, length) == 0)
            return true;
    return false;
}

/* Reads words and texts from the table, in order. ends: set when a read goes beyond the table's end. */
struct reader {
    const unsigned char *bytes;
    size_t size, at;
    bool ends;
};

static uint32_t take(struct reader *reader) {
    uint32_t value = 0;
    if (reader->size - reader->at < sizeof value) reader->ends = true;
    else {
        memcpy(&value, reader->bytes + reader->at, sizeof value);
        reader->at += sizeof value;
    }
    return value;
}

/* Read a text: its length in a word, its characters, and zeros up to a whole word. */
static const char *take_text(struct reader *reader) {
    uint32_t length = take(reader);
    size_t padded = ((size_t)length / 4 + 1) * 4;
    if (reader->ends || reader->size - reader->at < padded || reader->bytes[reader->at + length] ||
        memchr(reader->bytes + reader->at, 0, length)) {
        reader->ends = true;
        return "";
    }
    const char *text = (const char *)reader->bytes + reader->at;
    reader->at += padded;
    return text;
}

static void take_list(struct reader *reader, uint32_t values, struct value_list *list) {
    uint32_t count = take(reader);
    if (reader->ends || count > values) {
        reader->ends = true;
        return;
    }
    list->indices = calloc(count + 1u, sizeof *list->indices);
    if (!list->indices) {
        reader->ends = true;
        return;
    }
    list->count = count;
    for (uint32_t i = 0; i < count; i++)
        if ((list->indices[i] = take(reader)) >= values) reader->ends = true;
}

/* Read a tensor's rank and dims into `dims`, which it then has; false if they are no tensor's. */
static bool take_dims(struct reader *reader, bool nchw, mavcg_accel_tensor *tensor, int64_t *dims) {
    uint32_t rank = take(reader);
    if (reader->ends || rank > MOST_RANK || (nchw && rank != 4)) {
        reader->ends = true;
        return false;
    }
    uint64_t elements = 1;
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = take(reader);
        elements *= (uint64_t)dims[i];
        if (!dims[i] || elements > UINT32_MAX) reader->ends = true;
        if (reader->ends) return false;
    }
    tensor->rank = (int32_t)rank;
    tensor->dims = dims;
    tensor->elements = (size_t)elements;
    return true;
}

/* Read an output of the network, whose elements are those of a value. */
static void take_output(struct reader *reader, const struct image *image, struct output *output) {
    output->value = take(reader);
    output->tensor.name = take_text(reader);
    output->nchw = take(reader) != 0;
    if (!take_dims(reader, output->nchw, &output->tensor, output->dims)) return;
    const struct value *value = output->value < image->value_count ? &image->values[output->value] : NULL;
    if (!value || value->tensor.elements != output->tensor.elements ||
        (output->nchw && (value->tensor.rank != 4 || value->channels != output->dims[1])))
        reader->ends = true;
    else {
        output->tensor.radix = value->tensor.radix;
        output->tensor.scale = value->tensor.scale;
        output->tensor.zero = value->tensor.zero;
    }
}

static void take_value(struct reader *reader, uint64_t feature_bytes, struct value *value) {
    value->tensor.name = take_text(reader);
    value->tensor.radix = (int32_t)take(reader);
    uint32_t scale = take(reader);
    memcpy(&value->tensor.scale, &scale, sizeof scale);
    value->tensor.zero = (int32_t)take(reader);
    value->nchw = take(reader) != 0;
    value->offset = take(reader);
    value->pixel = take(reader);
    if (!take_dims(reader, value->nchw, &value->tensor, value->dims)) return;
    int32_t rank = value->tensor.rank;
    size_t elements = value->tensor.elements;
    value->channels = !rank ? 1 : (uint32_t)value->dims[value->nchw ? 1 : rank - 1];
    value->pixels = (uint32_t)(elements / value->channels);
    bool radix_fits = value->tensor.radix == NO_RADIX || (value->tensor.radix >= -64 && value->tensor.radix <= 64);
    bool zero_fits = value->tensor.zero >= INT8_MIN && value->tensor.zero <= INT8_MAX;
    if (!radix_fits || !zero_fits || !(value->tensor.scale >= 0 && value->tensor.scale <= FLT_MAX)) reader->ends = true;
    if (!value->pixel) return;
    uint64_t end = value->offset + (uint64_t)(value->pixels - 1) * value->pixel + value->channels;
    if (value->tensor.radix == NO_RADIX || value->pixel < value->channels || end > feature_bytes) reader->ends = true;
}

static bool all_stored(const struct image *image, const struct value_list *list) {
    for (uint32_t i = 0; i < list->count; i++)
        if (!image->values[list->indices[i]].pixel) return false;
    return true;
}

static bool take_segments(struct image *image, struct reader *reader) {
    uint32_t count = take(reader);
    if (reader->ends || !count || count > MOST_SEGMENTS) return false;
    image->segments = calloc(count, sizeof *image->segments);
    image->parts = calloc(count + 1u, sizeof *image->parts);
    if (!image->segments || !image->parts) return false;
    image->segment_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct segment *segment = &image->segments[i];
        segment->code_offset = take(reader);
        segment->code_bytes = take(reader);
        take_list(reader, image->value_count, &segment->loaded);
        take_list(reader, image->value_count, &segment->saved);
        if (reader->ends || segment->code_offset > image->code_bytes ||
            segment->code_bytes > image->code_bytes - segment->code_offset || !all_stored(image, &segment->loaded) ||
            !all_stored(image, &segment->saved))
            return false;
    }
    for (uint32_t i = 0; i <= count; i++) {
        image->parts[i].name = take_text(reader);
        take_list(reader, image->value_count, &image->parts[i].inputs);
        take_list(reader, image->value_count, &image->parts[i].outputs);
    }
    return !reader->ends;
}

static bool read_host_table(struct image *image, struct reader *reader) {
    if (take(reader) != HOST_TABLE_MAGIC) return false;
    uint32_t *sizes[] = {&image->sizes.cores,     &image->sizes.word,          &image->sizes.oc_lanes,
                         &image->sizes.row_lanes, &image->sizes.feature_words, &image->sizes.weight_words,
                         &image->sizes.banks,     &image->sizes.rounding};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) *sizes[i] = take(reader);
    uint32_t count = take(reader);
    if (reader->ends || count > MOST_VALUES) return false;
    image->values = calloc(count + 1u, sizeof *image->values);
    if (!image->values) return false;
    image->value_count = count;
    for (uint32_t i = 0; i < count && !reader->ends; i++) take_value(reader, image->feature_bytes, &image->values[i]);
    uint32_t outputs = take(reader);
    if (reader->ends || outputs > MOST_VALUES) return false;
    image->outputs = calloc(outputs + 1u, sizeof *image->outputs);
    if (!image->outputs) return false;
    image->output_count = outputs;
    for (uint32_t i = 0; i < outputs && !reader->ends; i++) take_output(reader, image, &image->outputs[i]);
    take_list(reader, count, &image->inputs);
    return take_segments(image, reader) && reader->at == reader->size;
}

/* Read the simulated times of the segments, which a file need not have: the frequency in kHz, and cycles. */
static bool read_timing(struct image *image) {
    struct section timing;
    uint64_t khz, cycles;
    if (!find_section(image, ".timing", &timing)) return true;
    if (timing.type != CONTENTS || timing.size != (image->segment_count + 1u) * sizeof cycles) return false;
    memcpy(&khz, image->file + timing.offset, sizeof khz);
    for (uint32_t i = 0; i < image->segment_count; i++) {
        memcpy(&cycles, image->file + timing.offset + (i + 1u) * sizeof cycles, sizeof cycles);
        if (!khz || khz > MOST_CYCLES || cycles > MOST_CYCLES) return false;
        image->segments[i].simulated_ns = (cycles * NS_OF_KHZ + khz - 1) / khz;
    }
    return true;
}

int read_image(const char *path, struct image *image, char *message) {
    memset(image, 0, sizeof *image);
    int status = read_file(path, image, message);
    if (status) return status;
    struct section text, parameters, features, table;
    if (!find_section(image, ".text", &text) || !find_section(image, ".parameters", &parameters) ||
        !find_section(image, ".features", &features) || !find_section(image, ".host", &table) ||
        text.type != CONTENTS || parameters.type != CONTENTS || table.type != CONTENTS || text.size > UINT32_MAX ||
        parameters.size > UINT32_MAX || features.size > UINT32_MAX)
        return fail(message, MAVCG_ACCEL_BAD_FILE, "%.180s: no program of mavcg accel build, or damaged", path);
    image->code = image->file + text.offset;
    image->code_bytes = text.size;
    image->parameters = image->file + parameters.offset;
    image->parameter_bytes = parameters.size;
    image->feature_bytes = features.size;
    struct reader reader = {image->file + table.offset, table.size, 0, false};
    if (!read_host_table(image, &reader))
        return fail(message, MAVCG_ACCEL_BAD_FILE, "%.180s: its section .host is damaged, or of another version", path);
    if (!read_timing(image)) return fail(message, MAVCG_ACCEL_BAD_FILE, "%.180s: its section .timing is damaged", path);
    return MAVCG_ACCEL_OK;
}

static void release_list(struct value_list *list) { free(list->indices); }

void release_image(struct image *image) {
    release_list(&image->inputs);
    for (uint32_t i = 0; i < image->segment_count; i++) {
        release_list(&image->segments[i].loaded);
        release_list(&image->segments[i].saved);
    }
    for (uint32_t i = 0; image->parts && i <= image->segment_count; i++) {
        release_list(&image->parts[i].inputs);
        release_list(&image->parts[i].outputs);
    }
    free(image->segments);
    free(image->parts);
    free(image->values);
    free(image->outputs);
    free(image->file);
    memset(image, 0, sizeof *image);
}

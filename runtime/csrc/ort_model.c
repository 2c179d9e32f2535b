/* Recognises the ONNX file that a library was built from, by digests of the file and of its external data. */
#include "ort_model.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "blake2b.h"
#include "drop_in.h"

enum { MODEL_PIECE_BYTES = 1 << 14 };

static bool has_digest(const char *path, const struct drop_in_model_file *file) {
    uint8_t digest[BLAKE2B_DIGEST];
    uint8_t piece[MODEL_PIECE_BYTES];
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    if (opened < 0) return false;
    struct blake2b hash;
    blake2b_begin(&hash);
    uint64_t done = 0;
    ssize_t size = 1;
    /* The size tells early that the file is another one: reading stops soon after the expected size. */
    while (size > 0 && done <= file->bytes) {
        size = read(opened, piece, sizeof piece);
        if (size > 0) blake2b_add(&hash, piece, (size_t)size);
        done += size > 0 ? (uint64_t)size : 0;
    }
    close(opened);
    blake2b_end(&hash, digest);
    return !size && done == file->bytes && !memcmp(digest, file->digest, sizeof digest);
}

MAVCG_PRIVATE bool is_own_model(const char *path) {
    const uint32_t files = MODEL_FILES; /* 0 in a library built from a TFLite file */
    if (!files || !*path) return false;
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0;
    for (uint32_t i = 0; i < files; i++) {
        char beside[PATH_MAX];
        const struct drop_in_model_file *file = &drop_in_model_files[i];
        int length = snprintf(beside, sizeof beside, "%.*s%s", folder, path, file->location);
        if (length < 0 || length >= (int)sizeof beside) return false;
        if (!has_digest(i ? beside : path, file)) return false;
    }
    return true;
}

/* Recognises the file that a library was built from, by its digest.
 *
 * A delegate does not receive the file, but the runtime's constants point into it, as it was mapped or read: the
 * address of one constant gives the file's start. In another file this address is meaningless, so the memory is read by
 * a system call, which fails for unmapped addresses. */
#include "tflite_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "blake2b.h"
#include "drop_in.h"
#include "internal.h"

enum { PIECE_BYTES = 1 << 12 }; /* every pipe can hold so many bytes */

/* A copier of memory. It uses a pipe if the system or an emulator has no process_vm_readv. pipe: -1 until it is
 * needed. */
struct copier {
    int pipe[2];
};

/* Copy memory of this process through a pipe; the write fails for unmapped addresses. */
static bool copy_by_pipe(struct copier *copier, void *to, uintptr_t from, size_t size) {
    if (copier->pipe[0] < 0 && pipe2(copier->pipe, O_CLOEXEC | O_NONBLOCK)) return false;
    return write(copier->pipe[1], (const void *)from, size) == (ssize_t)size &&
           read(copier->pipe[0], to, size) == (ssize_t)size;
}

/* Copy at most PIECE_BYTES of this process's memory; returns false if some of it is not mapped. */
static bool copy_memory(struct copier *copier, void *to, uintptr_t from, size_t size) {
    if (copier->pipe[0] >= 0) return copy_by_pipe(copier, to, from, size);
    struct iovec here = {to, size}, there = {(void *)from, size};
    /* syscall takes register-wide arguments. */
    const unsigned long one = 1, no_flags = 0;
    long copied = syscall(SYS_process_vm_readv, (long)getpid(), &here, one, &there, one, no_flags);
    if (copied < 0 && errno != EFAULT) return copy_by_pipe(copier, to, from, size);
    return copied == (long)size;
}

/* Compute the digest of memory from `start` on, as many bytes as the library's own file has. Returns false if some of
 * them are not mapped. */
static bool digest_memory(struct copier *copier, uintptr_t start, uint8_t digest[BLAKE2B_DIGEST]) {
    uint8_t piece[PIECE_BYTES];
    struct blake2b hash;
    blake2b_begin(&hash);
    for (uint64_t done = 0; done < drop_in_file.bytes; done += PIECE_BYTES) {
        uint64_t left = drop_in_file.bytes - done;
        size_t size = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        if (!copy_memory(copier, piece, start + done, size)) return false;
        blake2b_add(&hash, piece, size);
    }
    blake2b_end(&hash, digest);
    return true;
}

/* True if memory from `start` on begins as a TFLite file does: what another graph's constant locates seldom does. */
static bool begins_file(struct copier *copier, uintptr_t start) {
    char head[8];
    return copy_memory(copier, head, start, sizeof head) && !memcmp(head + 4, "TFL3", 4);
}

MAVCG_PRIVATE bool is_own_graph(const tflite_context *context, const struct drop_in_graph *graph) {
    if (graph->anchor_tensor < 0 || (size_t)graph->anchor_tensor >= context->tensors_size) return false;
    const tflite_tensor *anchor = &context->tensors[graph->anchor_tensor];
    if (anchor->allocation_type != TFLITE_MMAP_RO || !anchor->data) return false;
    uintptr_t start = (uintptr_t)anchor->data - graph->anchor_offset;
    if (start > (uintptr_t)anchor->data) return false;
    uint8_t digest[BLAKE2B_DIGEST];
    struct copier copier = {{-1, -1}};
    int before = errno;
    bool own = begins_file(&copier, start) && digest_memory(&copier, start, digest) &&
               !memcmp(digest, drop_in_file.digest, sizeof digest);
    for (int i = 0; i < 2; i++)
        if (copier.pipe[i] >= 0) close(copier.pipe[i]);
    errno = before;
    return own;
}

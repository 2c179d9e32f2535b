/* Recognises the file that a library was built of by its digest.
 *
 * A delegate does not get the file, but the runtime's constants lie in it as it was mapped or read: so its beginning
 * follows from the address of one of them. In another file this address means nothing; it is read by a system call, which
 * fails where there is no memory. */
#include "tflite_file.h"

#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "blake2b.h"
#include "drop_in.h"
#include "internal.h"

enum { PIECE_BYTES = 1 << 14 };

/* Copy memory of this process; false where some of it is not there, or the system forbids it. */
static bool copy_memory(void *to, uintptr_t from, size_t size) {
    struct iovec here = {to, size}, there = {(void *)from, size};
    /* Arguments of syscall are as wide as registers. */
    const unsigned long one = 1, no_flags = 0;
    return syscall(SYS_process_vm_readv, (long)getpid(), &here, one, &there, one, no_flags) == (long)size;
}

MAVCG_PRIVATE bool is_own_file(const tflite_context *context) {
    if (drop_in_file.anchor_tensor < 0 || (size_t)drop_in_file.anchor_tensor >= context->tensors_size) return false;
    const tflite_tensor *anchor = &context->tensors[drop_in_file.anchor_tensor];
    if (anchor->allocation_type != TFLITE_MMAP_RO || !anchor->data) return false;
    uintptr_t start = (uintptr_t)anchor->data - drop_in_file.anchor_offset;
    if (start > (uintptr_t)anchor->data) return false;
    uint8_t piece[PIECE_BYTES], digest[BLAKE2B_DIGEST];
    struct blake2b hash;
    blake2b_begin(&hash);
    for (uint64_t done = 0; done < drop_in_file.bytes; done += PIECE_BYTES) {
        uint64_t left = drop_in_file.bytes - done;
        size_t size = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        if (!copy_memory(piece, start + done, size)) return false;
        blake2b_add(&hash, piece, size);
    }
    blake2b_end(&hash, digest);
    return !memcmp(digest, drop_in_file.digest, sizeof digest);
}

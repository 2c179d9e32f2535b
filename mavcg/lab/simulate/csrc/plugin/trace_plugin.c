/* A plugin of qemu's user-mode emulator (qemu-plugin API, version 1) that sends the executed blocks of a program and
   their memory accesses to the simulator.

   Region: with `watch=1` only the calls first..last of a function are sent, whose addresses the simulator returns for
   each file that the program maps; with `between=1` what runs from the end of call `first` to the begin of the next
   call. All threads are sent while a region is open. API version 1 gives no registers, so that a return is recognised
   by a stack of return addresses.

   The stream consists of chunks: a header, then bytes. Records of 8 bytes in a TRACE chunk are described at RECORDS. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest_registers.h"
#include "qemu_api.h"

#define EXPORTED __attribute__((visibility("default")))
EXPORTED int qemu_plugin_version = 1;
EXPORTED int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

/* ---- the stream ---- */

/* Kinds of chunks; process_emulator.py has the same numbers. */
enum chunk { CHUNK_TRACE = 1, CHUNK_DEFINE, CHUNK_MAPPED, CHUNK_END };

/* number: of the thread in TRACE, of the block in DEFINE (its address, then its instructions). */
typedef struct {
    uint32_t kind, number;
    uint64_t bytes;
} header;

/* RECORDS. The upper 3 bits are the record's kind. Access: 9 bits index of the instruction in its block, 3 bits
   log2(bytes), 1 bit store, 48 bits address. Block: its number. Begin: number of the call. End: address of the block
   that follows the region. Prefetch: as an access. simulate_api.h has the same kinds. */
enum { RECORD_ACCESS, RECORD_BLOCK, RECORD_BEGIN, RECORD_END, RECORD_PREFETCH };
enum { KIND_SHIFT = 61, INDEX_SHIFT = 52, SIZE_SHIFT = 49, STORE_SHIFT = 48, INDEX_LIMIT = 511 };
#define ADDRESS_MASK 0xffffffffffffull

enum { ROOM = 1 << 13, THREADS = 4096, STACK_LIMIT = 1 << 20, CALL_ENDS = 1, RETURN_ENDS = 2 };

typedef struct {
    uint64_t address, end;
    uint32_t number, count, prefetches;
    uint8_t ends, entry; /* entry: a watched function begins here */
    uint8_t checks;      /* its first instruction tells if registers are right */
    _Atomic uint8_t defined;
    uint32_t words[];
} block;

typedef struct {
    uint32_t number;
    int tracing, opened;                                    /* opened: this thread opened the region */
    uint64_t region_depth, last_end, waits_depth, expected; /* expected: address of the next access; 0: any */
    uint8_t last_ends, maps_code, waits; /* waits: between regions, the return of the call opens one */
    uint64_t *stack, depth, stack_room;
    uint32_t used;
    uint64_t records[ROOM];
} thread;

static thread *threads[THREADS];
static _Atomic uint32_t thread_count, block_count, open_regions;
static _Atomic uint64_t call_count;
static uint64_t first_call = 1, last_call = ~0ull;
static int stream = -1, watch, between;
static pid_t process;
static pthread_mutex_t stream_lock = PTHREAD_MUTEX_INITIALIZER;

static void write_all(const void *from, size_t bytes) {
    const char *at = from;
    while (bytes) {
        ssize_t done = write(stream, at, bytes);
        if (done <= 0) _exit(125); /* the simulator has ended */
        at += done;
        bytes -= (size_t)done;
    }
}

static void read_all(void *to, size_t bytes) {
    char *at = to;
    while (bytes) {
        ssize_t done = read(stream, at, bytes);
        if (done <= 0) _exit(125);
        at += done;
        bytes -= (size_t)done;
    }
}

/* A child of the program has a copy of everything, and is not simulated. */
static int is_child(void) { return getpid() != process; }

/* Send a chunk of two parts; the lock is held. */
static void send_parts(uint32_t kind, uint32_t number, const void *first, uint64_t first_bytes, const void *then,
                       uint64_t then_bytes) {
    header head = {kind, number, first_bytes + then_bytes};
    write_all(&head, sizeof head);
    write_all(first, first_bytes);
    write_all(then, then_bytes);
}

static void send_chunk(uint32_t kind, uint32_t number, const void *from, uint64_t bytes) {
    pthread_mutex_lock(&stream_lock);
    send_parts(kind, number, from, bytes, NULL, 0);
    pthread_mutex_unlock(&stream_lock);
}

static void flush(thread *t) {
    if (t->used && !is_child()) send_chunk(CHUNK_TRACE, t->number, t->records, t->used * sizeof *t->records);
    t->used = 0;
}

static void record(thread *t, uint64_t kind, uint64_t value) {
    if (t->used == ROOM) flush(t);
    t->records[t->used++] = kind << KIND_SHIFT | value;
}

/* Send the address and instructions of a block before any thread sends its number. */
static void define(block *b) {
    if (is_child()) return;
    pthread_mutex_lock(&stream_lock);
    if (!b->defined)
        send_parts(CHUNK_DEFINE, b->number, &b->address, sizeof b->address, b->words,
                   (uint64_t)b->count * sizeof *b->words);
    b->defined = 1;
    pthread_mutex_unlock(&stream_lock);
}

/* ---- addresses of the watched function ---- */

enum { MAPPED = 4096, TARGETS = 256, PATH_ROOM = 4096 };

static struct { uint64_t start, offset, path_hash; } mapped[MAPPED];
static uint32_t mapped_count, target_count;
static uint64_t targets[TARGETS];
static pthread_mutex_t maps_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_of(const char *text) { /* FNV-1a */
    uint64_t hash = 0xcbf29ce484222325ull;
    while (*text) hash = (hash ^ (uint8_t)*text++) * 0x100000001b3ull;
    return hash;
}

static int is_known(uint64_t start, uint64_t offset, uint64_t path_hash) {
    for (uint32_t n = 0; n < mapped_count; n++)
        if (mapped[n].start == start && mapped[n].offset == offset && mapped[n].path_hash == path_hash) return 1;
    return 0;
}

/* Send a new mapping, and receive the addresses at which the function begins in it. */
static void ask(uint64_t start, uint64_t offset, const char *path) {
    uint64_t hash = hash_of(path), count = 0;
    if (is_known(start, offset, hash) || mapped_count == MAPPED || is_child()) return;
    mapped[mapped_count].start = start;
    mapped[mapped_count].offset = offset;
    mapped[mapped_count++].path_hash = hash;
    struct {
        uint64_t start, offset;
        char path[PATH_ROOM];
    } text = {start, offset, {0}};
    size_t length = strlen(path);
    memcpy(text.path, path, length);
    send_chunk(CHUNK_MAPPED, 0, &text, 2 * sizeof(uint64_t) + length);
    read_all(&count, sizeof count);
    for (uint64_t n = 0, address; n < count; n++) {
        read_all(&address, sizeof address);
        if (target_count < TARGETS) targets[target_count++] = address;
    }
}

/* The guest's addresses are the host's plus this; the emulator maps files as the host sees them. */
static uint64_t guest_base;

static void scan_maps(void) {
    pthread_mutex_lock(&maps_lock);
    FILE *file = fopen("/proc/self/maps", "re");
    char line[PATH_ROOM + 128];
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *end = NULL, *path = strchr(line, '/');
        uint64_t start = strtoull(line, &end, 16);
        if (path == NULL || path - line < 40) continue;
        uint64_t offset = 0;
        for (char *at = end; at != NULL && *at && *at != ' '; at++) end = at + 1; /* the end address */
        offset = strtoull(end + 6, NULL, 16);                                     /* after the permissions */
        path[strcspn(path, "\n")] = 0;
        if (strlen(path) < PATH_ROOM) ask(start - guest_base, offset, path);
    }
    if (file != NULL) fclose(file);
    pthread_mutex_unlock(&maps_lock);
}

static int is_target(uint64_t address) {
    for (uint32_t n = 0; n < target_count; n++)
        if (targets[n] == address) return 1;
    return 0;
}

enum { SYSCALL_MMAP = 222, PROT_EXECUTE = 4 };

static void on_syscall(plugin_id id, unsigned vcpu, int64_t number, uint64_t a, uint64_t b, uint64_t protection,
                       uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
    (void)id, (void)a, (void)b, (void)d, (void)e, (void)f, (void)g, (void)h;
    threads[vcpu]->maps_code = number == SYSCALL_MMAP && protection & PROT_EXECUTE;
}

static void on_syscall_return(plugin_id id, unsigned vcpu, int64_t number, int64_t result) {
    (void)id, (void)number, (void)result;
    if (threads[vcpu]->maps_code) scan_maps();
    threads[vcpu]->maps_code = 0;
}

/* ---- threads and regions ---- */

static void on_thread(plugin_id id, unsigned vcpu) {
    (void)id;
    if (vcpu >= THREADS) {
        fprintf(stderr, "mavcg: the program has more than %d threads\n", THREADS);
        _exit(125);
    }
    if (threads[vcpu] == NULL) threads[vcpu] = malloc(sizeof *threads[vcpu]);
    if (threads[vcpu] == NULL) _exit(125);
    memset(threads[vcpu], 0, offsetof(thread, records));
    threads[vcpu]->number = thread_count++;
}

static void on_thread_end(plugin_id id, unsigned vcpu) {
    (void)id;
    thread *t = threads[vcpu];
    if (t->tracing) record(t, RECORD_END, 0);
    if (t->opened) open_regions--;
    t->tracing = t->opened = 0;
    flush(t);
    free(t->stack);
    t->stack = NULL;
    t->depth = t->stack_room = 0;
}

static void push(thread *t, uint64_t address) {
    if (t->depth == t->stack_room) {
        uint64_t room = t->stack_room ? t->stack_room * 2 : 256;
        uint64_t *larger = room > STACK_LIMIT ? NULL : realloc(t->stack, room * sizeof *larger);
        if (larger == NULL) return;
        t->stack = larger;
        t->stack_room = room;
    }
    t->stack[t->depth++] = address;
}

/* Pop the calls that a jump to this address ends; none if it is no return address (a longjmp, a switch of stacks). */
static void pop(thread *t, uint64_t address) {
    for (uint64_t depth = t->depth; depth-- > 0;)
        if (t->stack[depth] == address) {
            t->depth = depth;
            return;
        }
}

static int wanted(uint64_t call) { return call >= first_call && call <= last_call; }

static void open_region(thread *t) {
    t->opened = 1;
    t->region_depth = t->depth;
    open_regions++;
}

static void enter(thread *t) {
    if (between && t->opened) { /* the next call ends the region */
        t->opened = 0;
        open_regions--;
    }
    if (t->opened || t->waits) return; /* a call within the call */
    uint64_t call = ++call_count;
    if (!wanted(call)) return;
    if (between) {
        t->waits = 1;
        t->waits_depth = t->depth;
    } else open_region(t);
}

/* Begin and end this thread's part of a region at the block that now begins. */
static void update_region(thread *t, const block *b) {
    if (watch) {
        if (!between && t->opened && t->depth < t->region_depth) {
            t->opened = 0;
            open_regions--;
        }
        if (t->waits && t->depth < t->waits_depth) {
            t->waits = 0;
            open_region(t);
        }
        if (b->entry) {
            if (t->tracing && t->opened && between) {
                record(t, RECORD_END, b->address);
                t->tracing = 0;
            }
            enter(t);
        }
    }
    int active = open_regions > 0;
    if (active == t->tracing) return;
    if (active) record(t, RECORD_BEGIN, call_count);
    else {
        record(t, RECORD_END, b->address);
        flush(t);
    }
    t->tracing = active;
}

/* ---- blocks ---- */

static void send_prefetches(thread *t, const block *b, const void *state) {
    integers now;
    uint64_t address;
    read_integers(&now, state);
    for (uint32_t n = 0, left = b->prefetches; left && n <= INDEX_LIMIT; n++) {
        if (!is_prefetch(b->words[n])) follow_step(&now, b->words[n]);
        else if (left--, prefetch_address(b->words[n], &now, &address))
            record(t, RECORD_PREFETCH, (uint64_t)n << INDEX_SHIFT | (address & ADDRESS_MASK));
    }
}

__attribute__((used)) static void on_block_with(unsigned vcpu, void *data, const void *state) {
    block *b = data;
    thread *t = threads[vcpu];
    if (t->last_ends == CALL_ENDS) push(t, t->last_end);
    else if (t->last_ends == RETURN_ENDS) pop(t, b->address);
    t->last_ends = b->ends;
    t->last_end = b->end;
    if (b->entry || t->opened || t->waits || t->tracing != (open_regions > 0)) update_region(t, b);
    t->expected = 0;
    if (b->checks && state != NULL && right_addresses >= 0 && right_addresses < TRUSTED)
        t->expected = known_address(b->words[0], state);
    if (!t->tracing) return;
    if (!b->defined) define(b);
    record(t, RECORD_BLOCK, b->number);
    if (b->prefetches && state != NULL && right_addresses >= TRUSTED) send_prefetches(t, b, state);
}

#ifdef __x86_64__
__attribute__((naked)) static void on_block(unsigned vcpu, void *data) {
    __asm__("movq %rbp, %rdx\n\tjmp on_block_with");
}
#else
static void on_block(unsigned vcpu, void *data) { on_block_with(vcpu, data, NULL); }
#endif

static void on_access(unsigned vcpu, uint32_t info, uint64_t address, void *data) {
    thread *t = threads[vcpu];
    if (t->expected) {
        if (t->expected != address) right_addresses = -1;
        else if (right_addresses >= 0) right_addresses++;
        t->expected = 0;
    }
    if (t->tracing)
        record(t, RECORD_ACCESS,
               (uint64_t)(uintptr_t)data << INDEX_SHIFT | (uint64_t)qemu_plugin_mem_size_shift(info) << SIZE_SHIFT |
                   (uint64_t)qemu_plugin_mem_is_store(info) << STORE_SHIFT | (address & ADDRESS_MASK));
}

/* ---- translation ---- */

static uint8_t end_of(uint32_t word) {
    if (word >> 26 == 0x25) return CALL_ENDS;                                         /* bl */
    if ((word & 0xfefff000) == 0xd63f0000) return CALL_ENDS;                          /* blr, blraa and similar ones */
    if ((word & 0xfffff01f) == 0xd65f0000 && (word & 0xc00) == 0) return RETURN_ENDS; /* ret */
    if ((word & 0xfffffbff) == 0xd65f0bff) return RETURN_ENDS;                        /* retaa, retab */
    return 0;
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *tb) {
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(tb);
    block *b = calloc(1, sizeof *b + count * sizeof b->words[0]);
    if (b == NULL || count == 0) return;
    struct qemu_plugin_insn *head = qemu_plugin_tb_get_insn(tb, 0);
    b->address = qemu_plugin_insn_vaddr(head);
    if (watch && mapped_count == 0) {
        guest_base = (uint64_t)(uintptr_t)qemu_plugin_insn_haddr(head) - b->address;
        scan_maps();
    }
    b->end = b->address + count * 4;
    b->count = (uint32_t)count;
    b->number = block_count++;
    b->entry = (uint8_t)is_target(b->address);
    for (size_t n = 0; n < count; n++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, n);
        memcpy(&b->words[n], qemu_plugin_insn_data(insn), sizeof b->words[n]);
        if (n <= INDEX_LIMIT)
            qemu_plugin_register_vcpu_mem_cb(insn, on_access, CB_NO_REGS, MEM_READ_WRITE, (void *)(uintptr_t)n);
    }
    for (size_t n = 0; n < count; n++) b->prefetches += is_prefetch(b->words[n]);
    b->checks = (uint8_t)is_checked(b->words[0]) && !is_prefetch(b->words[0]);
    b->ends = end_of(b->words[count - 1]);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, CB_NO_REGS, b);
}

static void on_end(plugin_id id, void *data) {
    (void)id, (void)data;
    if (is_child()) return;
    for (uint32_t n = 0; n < THREADS; n++)
        if (threads[n] != NULL) {
            if (threads[n]->tracing) record(threads[n], RECORD_END, 0);
            threads[n]->tracing = 0;
            flush(threads[n]);
        }
    uint64_t calls = call_count;
    send_chunk(CHUNK_END, 0, &calls, sizeof calls);
}

static uint64_t number_of(const char *text) { return strtoull(strchr(text, '=') + 1, NULL, 10); }

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    (void)info;
    for (int n = 0; n < argc; n++) {
        if (strncmp(argv[n], "stream=", 7) == 0) stream = (int)number_of(argv[n]);
        else if (strncmp(argv[n], "watch=", 6) == 0) watch = (int)number_of(argv[n]);
        else if (strncmp(argv[n], "between=", 8) == 0) between = (int)number_of(argv[n]);
        else if (strncmp(argv[n], "first=", 6) == 0) first_call = number_of(argv[n]);
        else if (strncmp(argv[n], "last=", 5) == 0) last_call = number_of(argv[n]);
        else return -1;
    }
    int high = fcntl(stream, F_DUPFD_CLOEXEC, 512); /* out of the way of programs that count descriptors */
    if (high < 0) return -1;
    close(stream);
    stream = high;
    process = getpid();
    open_regions = !watch;
    qemu_plugin_register_vcpu_init_cb(id, on_thread);
    qemu_plugin_register_vcpu_exit_cb(id, on_thread_end);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    if (watch) {
        qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
        qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
    }
    qemu_plugin_register_atexit_cb(id, on_end, NULL);
    return 0;
}

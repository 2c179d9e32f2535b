/* The C library functions that a program needs on a machine without an operating system. Its input and output are
   sectors of the disk that it was loaded from. The machine is switched off when main returns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct header {
    unsigned states, program_sectors, input_sector, input_bytes, output_sector, output_sectors;
};
#define HEADER ((const struct header *)0x7de0) /* in the boot sector */
enum { MAGIC = 0x6d617663, HEAP = 0x9000000, HEAP_END = 0x3f000000, PAGE = 1 << 21, PAGE_ENTRIES = 0x3000 };
/* Ports of the first disk and commands of its protocol, which reads and writes single sectors by number. */
enum {
    SECTOR = 512,
    DATA = 0x1f0,
    COUNT = 0x1f2,
    LOW = 0x1f3,
    MIDDLE = 0x1f4,
    HIGH = 0x1f5,
    DRIVE = 0x1f6,
    COMMAND = 0x1f7
};
enum { BUSY = 0x80, READY = 8, FAILED = 0x21, READ = 0x20, WRITE = 0x30, FLUSH = 0xe7 };

static void put(unsigned short port, unsigned char value) { __asm__ volatile("outb %0, %1" ::"a"(value), "Nd"(port)); }
static unsigned char get(unsigned short port) {
    unsigned char value;
    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

/* Switch the machine off, by a port of the emulator. */
_Noreturn static void off(void) {
    for (const char *word = "Shutdown"; *word; word++) put(0x8900, *word);
    for (;;) __asm__ volatile("hlt");
}

static void command(unsigned sector, unsigned char what) {
    while (get(COMMAND) & BUSY) {}
    put(DRIVE, 0xe0 | (sector >> 24 & 15));
    put(COUNT, 1);
    put(LOW, sector), put(MIDDLE, sector >> 8), put(HIGH, sector >> 16);
    put(COMMAND, what);
    while (get(COMMAND) & BUSY) {}
    if (get(COMMAND) & FAILED) off();
}

static void read_sector(unsigned sector, char *to) {
    command(sector, READ);
    unsigned long words = SECTOR / 2;
    __asm__ volatile("rep insw" : "+D"(to), "+c"(words) : "d"(DATA) : "memory");
}

static void write_sector(unsigned sector, const char *from) {
    command(sector, WRITE);
    unsigned long words = SECTOR / 2;
    __asm__ volatile("rep outsw" : "+S"(from), "+c"(words) : "d"(DATA) : "memory");
}

struct FILE {
    unsigned sector, at;
    unsigned long done;
    char buffer[SECTOR];
};
static struct FILE in, out;
FILE *stdin, *stdout;

unsigned long fread(void *to, unsigned long size, unsigned long count, FILE *from) {
    unsigned long bytes = size * count, left = HEADER->input_bytes - from->done, i;
    if (bytes > left) bytes = left;
    for (i = 0; i < bytes; i++) {
        if (from->done % SECTOR == 0) read_sector(from->sector++, from->buffer);
        ((char *)to)[i] = from->buffer[from->done++ % SECTOR];
    }
    return bytes / size;
}

unsigned long fwrite(const void *from, unsigned long size, unsigned long count, FILE *to) {
    for (unsigned long i = 0; i < size * count; i++) {
        if (to->sector - HEADER->output_sector >= HEADER->output_sectors) return i / size;
        to->buffer[to->done++ % SECTOR] = ((const char *)from)[i];
        if (to->done % SECTOR == 0) write_sector(to->sector++, to->buffer);
    }
    return count;
}

/* Write the sector behind the output, which marks the output as complete: a magic number, the status, the number of
   bytes written. */
_Noreturn void exit(int status) {
    if (out.done % SECTOR) write_sector(out.sector, out.buffer);
    char last[SECTOR] = {0};
    unsigned words[3] = {MAGIC, status, out.done};
    memcpy(last, words, sizeof words);
    write_sector(HEADER->output_sector + HEADER->output_sectors, last);
    put(COMMAND, FLUSH);
    while (get(COMMAND) & BUSY) {}
    off();
}

static char *next = (char *)HEAP;
void *aligned_alloc(unsigned long align, unsigned long bytes) {
    char *found = (char *)(((unsigned long)next + align - 1) / align * align);
    next = found + bytes;
    return next > (char *)HEAP_END ? 0 : found;
}
void *malloc(unsigned long bytes) { return aligned_alloc(64, bytes); }
void free(void *memory) { (void)memory; }

/* Return memory from the pages that boot.S mapped, so that lengths are multiples of 2 MiB. Touching memory that does
   not exist ends the machine. */
void *mmap(void *at, unsigned long bytes, int rights, int flags, int file, long offset) {
    (void)at, (void)flags, (void)file, (void)offset;
    char *found = aligned_alloc(PAGE, bytes);
    return !found || mprotect(found, bytes, rights) ? MAP_FAILED : found;
}
int mprotect(void *at, unsigned long bytes, int rights) {
    volatile unsigned long *entries = (volatile unsigned long *)PAGE_ENTRIES;
    if ((unsigned long)at % PAGE || bytes % PAGE) return -1;
    for (char *page = at; page < (char *)at + bytes; page += PAGE) {
        entries[(unsigned long)page / PAGE] = (unsigned long)page | 0x82 | (rights != PROT_NONE);
        __asm__ volatile("invlpg (%0)" ::"r"(page) : "memory");
    }
    return 0;
}

void *memcpy(void *to, const void *from, unsigned long bytes) {
    void *start = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
    return start;
}
void *memset(void *to, int byte, unsigned long bytes) {
    void *start = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(byte) : "memory");
    return start;
}
void *memmove(void *to, const void *from, unsigned long bytes) {
    if (to <= from) return memcpy(to, from, bytes);
    for (char *t = to; bytes--;) t[bytes] = ((const char *)from)[bytes];
    return to;
}

int main(void);
extern char bss_begin[], bss_end[];
__attribute__((section(".start"))) void start(void) {
    memset(bss_begin, 0, bss_end - bss_begin);
    in.sector = HEADER->input_sector, out.sector = HEADER->output_sector;
    stdin = &in, stdout = &out;
    exit(main());
}

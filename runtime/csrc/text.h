/* Reading small text files of the kernel, and writing lines to stderr. */
#ifndef MAVCG_TEXT_H
#define MAVCG_TEXT_H

#include "internal.h"
#include "platform.h"

/* A file that is read character by character. */
struct reader {
    int fd;
    unsigned at, end;
    char buffer[256];
};

enum { END_OF_FILE = -1, NOT_A_NUMBER = -1 };

/* FNV-1a, by which known words are recognised without their text (cpuinfo.c). */
#define MAVCG_HASH_START 2166136261u
#define MAVCG_HASH(hash, c) (((hash) ^ (uint32_t)(c)) * 16777619u)

/* A part of a line. end: the character after it, one of ":,-\n", or END_OF_FILE. hash: of its characters without blanks.
 * number: its value, decimal or 0x..; NOT_A_NUMBER for other texts and numbers of more than 36
 * bits. */
struct token {
    uint32_t hash;
    int end;
    int64_t number;
};

/* A buffer for the digits of a number; the text is right-aligned in the array. */
struct digits {
    char text[21];
};

/* A line of a message; all of its parts are written in one system call. */
struct line {
    int count;
    struct text_part parts[24];
};

MAVCG_PRIVATE bool is_digit(int c);
MAVCG_PRIVATE bool is_blank(int c);

/* Return the length of a text in bytes. */
MAVCG_PRIVATE size_t text_bytes(const char *text);

/* True if the NUL-terminated text a equals the b_bytes bytes at b. */
MAVCG_PRIVATE bool same_text(const char *a, const char *b, size_t b_bytes);

/* Open a file of a machine. Returns false if it does not exist or the path is too long. */
MAVCG_PRIVATE bool open_reader(struct reader *in, const struct mavcg_machine *machine, const char *path);

/* Return the next character, or END_OF_FILE; a read error counts as the end of the file. */
MAVCG_PRIVATE int next_char(struct reader *in);

/* Read the next token. */
MAVCG_PRIVATE struct token read_token(struct reader *in);

/* Call visit for each CPU of a list such as "0-3,6" in a file. Returns the number of CPUs, 0 if the file cannot be
 * read. Everything after the first text that does not belong to a list is ignored. */
MAVCG_PRIVATE unsigned each_listed_cpu(const struct mavcg_machine *machine, const char *path,
                                       void (*visit)(void *, unsigned), void *context);

/* Write the digits of a number in this base to the end of `digits`. Returns their start. */
MAVCG_PRIVATE const char *number_text(struct digits *digits, uint64_t value, unsigned base);

MAVCG_PRIVATE void start_line(struct line *line);
MAVCG_PRIVATE void add_text(struct line *line, const char *text);
MAVCG_PRIVATE void add_bytes(struct line *line, const char *text, size_t bytes);

/* Write the line to stderr. */
MAVCG_PRIVATE void end_line(struct line *line);

#endif

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

enum { END_OF_FILE = -1 };

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

/* Open root + path. Returns false if the file does not exist or the path is too long. */
MAVCG_PRIVATE bool open_reader(struct reader *in, const char *root, const char *path);

/* Return the next character, or END_OF_FILE; a read error counts as the end of the file. */
MAVCG_PRIVATE int next_char(struct reader *in);

/* Read a token that begins with the character *c and ends before one of `stops` or at the end of the line, without
 * blanks at either end. *c becomes the character that ended it. Returns the token's length in bytes; 0 if it exceeds
 * token_bytes - 1, which no valid token does. */
MAVCG_PRIVATE size_t read_token(struct reader *in, int *c, const char *stops, char *token, size_t token_bytes);

/* Parse a whole text as a number, decimal or 0x.. Returns -1 if it is not a number, or above INT64_MAX. */
MAVCG_PRIVATE int64_t text_number(const char *text, size_t bytes);

/* Call visit for each CPU of a list such as "0-3,6" in a file. Returns the number of CPUs, 0 if the file cannot be
 * read. Everything after the first text that does not belong to a list is ignored. */
MAVCG_PRIVATE unsigned each_listed_cpu(const char *root, const char *path, void (*visit)(void *, unsigned),
                                       void *context);

/* Write the digits of a number in this base to the end of `digits`. Returns their start. */
MAVCG_PRIVATE const char *number_text(struct digits *digits, uint64_t value, unsigned base);

MAVCG_PRIVATE void start_line(struct line *line);
MAVCG_PRIVATE void add_text(struct line *line, const char *text);
MAVCG_PRIVATE void add_bytes(struct line *line, const char *text, size_t bytes);

/* Write the line to stderr. */
MAVCG_PRIVATE void end_line(struct line *line);

#endif

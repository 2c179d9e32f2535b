/* Reading of the kernel's small text files, and lines on stderr. */
#ifndef MAVCG_TEXT_H
#define MAVCG_TEXT_H

#include "internal.h"
#include "platform.h"

/* A file that is read a character at a time. */
struct reader {
    int fd;
    unsigned at, end;
    char buffer[256];
};

enum { END_OF_FILE = -1 };

/* Room for the digits of a number; the text ends at the end of the array. */
struct digits {
    char text[21];
};

/* A line of a message: its parts are written in one system call. */
struct line {
    int count;
    struct text_part parts[24];
};

MAVCG_PRIVATE bool is_digit(int c);
MAVCG_PRIVATE bool is_blank(int c);

/* Length of a text in bytes. */
MAVCG_PRIVATE size_t text_bytes(const char *text);

/* True if a, which ends with NUL, equals the b_bytes bytes at b. */
MAVCG_PRIVATE bool same_text(const char *a, const char *b, size_t b_bytes);

/* Open root + path; false where the file does not exist or the path is too long. */
MAVCG_PRIVATE bool open_reader(struct reader *in, const char *root, const char *path);

/* The next character, or END_OF_FILE; a read error ends the file too. */
MAVCG_PRIVATE int next_char(struct reader *in);

/* Read characters from *c on, up to one of stops or the end of the line, without blanks at either end; *c becomes the
 * character that ended them. Returns the token's length in bytes; 0 when it is longer than token_bytes - 1, which no
 * token that we know is. */
MAVCG_PRIVATE size_t read_token(struct reader *in, int *c, const char *stops, char *token, size_t token_bytes);

/* A whole text as a number, decimal or 0x..; -1 when it is not a number, or above INT64_MAX. */
MAVCG_PRIVATE int64_t text_number(const char *text, size_t bytes);

/* Call visit for each CPU of a list such as "0-3,6". Returns the number of CPUs, 0 where the file cannot be read. The
 * rest of the file after the first thing that is not a list is ignored. */
MAVCG_PRIVATE unsigned each_listed_cpu(const char *root, const char *path, void (*visit)(void *, unsigned),
                                       void *context);

/* The number's digits in this base, at the end of `digits`. */
MAVCG_PRIVATE const char *number_text(struct digits *digits, uint64_t value, unsigned base);

MAVCG_PRIVATE void start_line(struct line *line);
MAVCG_PRIVATE void add_text(struct line *line, const char *text);
MAVCG_PRIVATE void add_bytes(struct line *line, const char *text, size_t bytes);

/* Write the line to stderr. */
MAVCG_PRIVATE void end_line(struct line *line);

#endif

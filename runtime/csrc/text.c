/* Reads small text files of the kernel character by character through a small buffer, and writes lines to stderr. */
#include "text.h"

#include "internal.h"
#include "platform.h"

MAVCG_PRIVATE bool is_digit(int c) { return c >= '0' && c <= '9'; }

MAVCG_PRIVATE bool is_blank(int c) { return c == ' ' || c == '\t'; }

MAVCG_PRIVATE size_t text_bytes(const char *text) {
    size_t bytes = 0;
    while (text[bytes]) bytes++;
    return bytes;
}

MAVCG_PRIVATE bool same_text(const char *a, const char *b, size_t b_bytes) {
    size_t i = 0;
    while (i < b_bytes && a[i] && a[i] == b[i]) i++;
    return i == b_bytes && !a[i];
}

MAVCG_PRIVATE bool open_reader(struct reader *in, const char *root, const char *path) {
    char full[MAVCG_PATH_BYTES];
    size_t bytes = 0;
    for (; *root && bytes < sizeof full - 1; root++) full[bytes++] = *root;
    for (; *path && bytes < sizeof full - 1; path++) full[bytes++] = *path;
    full[bytes] = 0;
    if (*root || *path) return false;
    in->at = in->end = 0;
    in->fd = open_file(full);
    return in->fd >= 0;
}

MAVCG_PRIVATE int next_char(struct reader *in) {
    if (in->at == in->end) {
        long bytes = read_file(in->fd, in->buffer, sizeof in->buffer);
        if (bytes <= 0) return END_OF_FILE;
        in->at = 0;
        in->end = (unsigned)bytes;
    }
    return (unsigned char)in->buffer[in->at++];
}

MAVCG_PRIVATE size_t read_token(struct reader *in, int *c, const char *stops, char *token, size_t token_bytes) {
    size_t bytes = 0;
    while (is_blank(*c)) *c = next_char(in);
    for (; *c != END_OF_FILE && *c != '\n'; *c = next_char(in)) {
        const char *stop = stops;
        while (*stop && *stop != *c) stop++;
        if (*stop) break;
        if (bytes < token_bytes) token[bytes++] = (char)*c;
    }
    if (bytes == token_bytes) return 0;
    while (bytes && (is_blank(token[bytes - 1]) || token[bytes - 1] == '\r')) bytes--;
    return bytes;
}

MAVCG_PRIVATE int64_t text_number(const char *text, size_t bytes) {
    uint64_t value = 0;
    unsigned base = bytes > 2 && text[0] == '0' && (text[1] | 32) == 'x' ? 16 : 10;
    size_t at = base == 16 ? 2 : 0;
    if (!bytes) return -1;
    for (; at < bytes; at++) {
        int c = text[at] | 32; /* lower case; a digit has this bit already */
        unsigned digit = is_digit(text[at])     ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                : 99;
        if (digit >= base || value > ((uint64_t)INT64_MAX - digit) / base) return -1;
        value = value * base + digit;
    }
    return (int64_t)value;
}

MAVCG_PRIVATE unsigned each_listed_cpu(const char *root, const char *path, void (*visit)(void *, unsigned),
                                       void *context) {
    struct reader in;
    unsigned count = 0;
    if (!open_reader(&in, root, path)) return 0;
    int c;
    do {
        char token[12];
        c = next_char(&in);
        int64_t first = text_number(token, read_token(&in, &c, "-,", token, sizeof token)), last = first;
        if (first >= 0 && c == '-') {
            c = next_char(&in);
            last = text_number(token, read_token(&in, &c, ",", token, sizeof token));
        }
        if (first < 0 || last < first) break;
        for (; first <= last && first < MAVCG_CPUS; first++, count++) visit(context, (unsigned)first);
    } while (c == ',');
    close_file(in.fd);
    return count;
}

MAVCG_PRIVATE const char *number_text(struct digits *digits, uint64_t value, unsigned base) {
    char *at = digits->text + sizeof digits->text - 1;
    *at = 0;
    do *--at = "0123456789abcdef"[value % base];
    while (value /= base);
    return at;
}

MAVCG_PRIVATE void add_bytes(struct line *line, const char *text, size_t bytes) {
    if (line->count == sizeof line->parts / sizeof line->parts[0]) return;
    line->parts[line->count].text = text;
    line->parts[line->count++].bytes = bytes;
}

MAVCG_PRIVATE void add_text(struct line *line, const char *text) { add_bytes(line, text, text_bytes(text)); }

MAVCG_PRIVATE void start_line(struct line *line) {
    line->count = 0;
    add_text(line, "mavcg: ");
}

MAVCG_PRIVATE void end_line(struct line *line) {
    if (line->count == sizeof line->parts / sizeof line->parts[0]) line->count--; /* the end matters more */
    add_text(line, "\n");
    write_stderr(line->parts, line->count);
}

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

MAVCG_PRIVATE bool open_reader(struct reader *in, const struct mavcg_machine *machine, const char *path) {
    const char *root = MAVCG_ROOT_OF(machine);
    char full[MAVCG_PATH_BYTES];
    if (*root) {
        size_t bytes = 0;
        for (; *root && bytes < sizeof full - 1; root++) full[bytes++] = *root;
        for (; *path && bytes < sizeof full - 1; path++) full[bytes++] = *path;
        full[bytes] = 0;
        if (*root || *path) return false;
        path = full;
    }
    in->at = in->end = 0;
    in->fd = open_file(path);
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

/* Return the value of a digit in bases up to 16; a number above 15 for any other character. */
static unsigned digit_value(int c) {
    unsigned value = (unsigned)(c - '0');
    return value <= 9 ? value : (unsigned)((c | 32) - 'a') + 10; /* bit 5: lower case */
}

MAVCG_PRIVATE struct token read_token(struct reader *in) {
    struct token token = {.hash = MAVCG_HASH_START, .end = 0, .number = 0};
    unsigned chars = 0, base = 10;
    for (;;) {
        int c = token.end = next_char(in);
        if (c == END_OF_FILE || c == '\n' || c == ':' || c == ',' || c == '-') break;
        if (c <= ' ') continue;
        unsigned digit = digit_value(c);
        token.hash = MAVCG_HASH(token.hash, c);
        if (++chars == 2 && !token.number) {
            base = 16;
            if ((c | 32) == 'x') continue;
            digit = base; /* no decimal number begins with 0 */
        }
        if (digit >= base || (uint64_t)token.number > UINT32_MAX) token.number = NOT_A_NUMBER;
        else token.number = token.number * base + digit;
    }
    if (!chars) token.number = NOT_A_NUMBER;
    return token;
}

MAVCG_PRIVATE unsigned each_listed_cpu(const struct mavcg_machine *machine, const char *path,
                                       void (*visit)(void *, unsigned), void *context) {
    struct reader in;
    unsigned count = 0;
    if (!open_reader(&in, machine, path)) return 0;
    struct token token;
    do {
        token = read_token(&in);
        int64_t cpu = token.number;
        if (token.end == '-') token = read_token(&in);
        if (cpu < 0 || token.number < cpu) break;
        for (; cpu <= token.number && cpu < MAVCG_CPUS; cpu++, count++) visit(context, (unsigned)cpu);
    } while (token.end == ',');
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

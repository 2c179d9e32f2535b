/* Reading the kernel's small text files, a character at a time from a small buffer, and writing lines to stderr. */

struct reader {
    int fd;
    unsigned at, end;
    char buffer[256];
};

enum { END_OF_FILE = -1 };

MAVCG_STATIC int is_digit(int c) { return c >= '0' && c <= '9'; }

MAVCG_STATIC int is_blank(int c) { return c == ' ' || c == '\t'; }

MAVCG_STATIC size_t text_bytes(const char *text) {
    size_t bytes = 0;
    while (text[bytes]) bytes++;
    return bytes;
}

MAVCG_STATIC int same_text(const char *a, const char *b, size_t b_bytes) {
    size_t i = 0;
    while (i < b_bytes && a[i] && a[i] == b[i]) i++;
    return i == b_bytes && !a[i];
}

/* Open root + path; 0 where it is not there or the path is too long. */
MAVCG_STATIC int open_reader(struct reader *in, const char *root, const char *path) {
    char full[MAVCG_PATH_BYTES];
    size_t bytes = 0;
    for (; *root && bytes < sizeof full - 1; root++) full[bytes++] = *root;
    for (; *path && bytes < sizeof full - 1; path++) full[bytes++] = *path;
    full[bytes] = 0;
    if (*root || *path) return 0;
    in->at = in->end = 0;
    in->fd = open_file(full);
    return in->fd >= 0;
}

/* The next character, or END_OF_FILE; a read error ends the file too. */
MAVCG_STATIC int next_char(struct reader *in) {
    if (in->at == in->end) {
        long got = read_file(in->fd, in->buffer, sizeof in->buffer);
        if (got <= 0) return END_OF_FILE;
        in->at = 0;
        in->end = (unsigned)got;
    }
    return (unsigned char)in->buffer[in->at++];
}

/* A number from its first character *c on, decimal or 0x.., at most 64 bits wide (a larger one stays at the largest);
 * *c becomes the character after it. -1 where there is no digit. */
MAVCG_STATIC int64_t read_number(struct reader *in, int *c) {
    uint64_t value = 0;
    unsigned base = 10, digits = 0;
    if (*c == '0') {
        digits = 1;
        *c = next_char(in);
        if (*c == 'x' || *c == 'X') {
            base = 16;
            digits = 0;
            *c = next_char(in);
        }
    }
    for (;; *c = next_char(in)) {
        unsigned digit = is_digit(*c)                           ? (unsigned)(*c - '0')
                         : base == 16 && *c >= 'a' && *c <= 'f' ? (unsigned)(*c - 'a' + 10)
                         : base == 16 && *c >= 'A' && *c <= 'F' ? (unsigned)(*c - 'A' + 10)
                                                                : 99;
        if (digit == 99) break;
        digits = 1;
        value = value > ((uint64_t)INT64_MAX - digit) / base ? (uint64_t)INT64_MAX : value * base + digit;
    }
    return digits ? (int64_t)value : -1;
}

/* Call visit for each CPU of a list such as "0-3,6"; how many there were, 0 where the file cannot be read. What
 * follows the first thing that is not a list is left out. */
MAVCG_STATIC unsigned each_listed_cpu(const char *root, const char *path, void (*visit)(void *, unsigned),
                                      void *context) {
    struct reader in;
    unsigned count = 0;
    if (!open_reader(&in, root, path)) return 0;
    int c;
    do {
        c = next_char(&in);
        int64_t first = read_number(&in, &c), last = first;
        if (first >= 0 && c == '-') {
            c = next_char(&in);
            last = read_number(&in, &c);
        }
        if (first < 0 || last < first) break;
        for (; first <= last && first < MAVCG_CPUS; first++, count++) visit(context, (unsigned)first);
    } while (c == ',');
    close_file(in.fd);
    return count;
}

/* Room for digits that say a number; the text ends at the end of the array. */
struct digits {
    char text[21];
};

MAVCG_STATIC const char *number_text(struct digits *room, uint64_t value, unsigned base) {
    char *at = room->text + sizeof room->text - 1;
    *at = 0;
    do *--at = "0123456789abcdef"[value % base];
    while (value /= base);
    return at;
}

struct line {
    int count;
    struct text_part parts[24];
};

MAVCG_STATIC void add_bytes(struct line *line, const char *text, size_t bytes) {
    if (line->count == sizeof line->parts / sizeof line->parts[0]) return;
    line->parts[line->count].text = text;
    line->parts[line->count++].bytes = bytes;
}

MAVCG_STATIC void add_text(struct line *line, const char *text) { add_bytes(line, text, text_bytes(text)); }

MAVCG_STATIC void start_line(struct line *line) {
    line->count = 0;
    add_text(line, "mavcg: ");
}

MAVCG_STATIC void end_line(struct line *line) {
    if (line->count == sizeof line->parts / sizeof line->parts[0]) line->count--; /* the end matters more */
    add_text(line, "\n");
    write_stderr(line->parts, line->count);
}

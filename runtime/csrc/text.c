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

/* Characters from *c on, up to one of stops or the end of the line, without blanks at either end; *c becomes what
 * ended them. The token's length; 0 when it has no room, which is none that we know. */
MAVCG_STATIC size_t read_token(struct reader *in, int *c, const char *stops, char *token, size_t room) {
    size_t bytes = 0;
    while (is_blank(*c)) *c = next_char(in);
    for (; *c != END_OF_FILE && *c != '\n'; *c = next_char(in)) {
        const char *stop = stops;
        while (*stop && *stop != *c) stop++;
        if (*stop) break;
        if (bytes < room) token[bytes++] = (char)*c;
    }
    if (bytes == room) return 0;
    while (bytes && (is_blank(token[bytes - 1]) || token[bytes - 1] == '\r')) bytes--;
    return bytes;
}

/* A whole text as a number, decimal or 0x..; -1 when it is not one, or above INT64_MAX. */
MAVCG_STATIC int64_t text_number(const char *text, size_t bytes) {
    uint64_t value = 0;
    unsigned base = bytes > 2 && text[0] == '0' && (text[1] | 32) == 'x' ? 16 : 10;
    size_t at = base == 16 ? 2 : 0;
    if (!bytes) return -1;
    for (; at < bytes; at++) {
        int c = text[at] | 32; /* letters in lower case; digits have this bit anyway */
        unsigned digit = is_digit(text[at]) ? (unsigned)(c - '0') : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 99;
        if (digit >= base || value > ((uint64_t)INT64_MAX - digit) / base) return -1;
        value = value * base + digit;
    }
    return (int64_t)value;
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

// Objects with versions from the user's cache, as mavcg/program/kept_object.py reads them. Included by cold_launch.c.
#include "sha256.h"

typedef struct {
    const char *message;
    const char *object;
    size_t size;
} Kept;

static void add_word(Text *text, const char *word) {
    size_t length = strlen(word) + 1;
    memcpy(text->bytes + text->size, word, length);
    text->size += length;
}

// The key of the object that a command makes; 0 if none is kept.
static int object_key(char *const *command, const char *config, char key[HEX_BYTES]) {
    char here[PATH_MAX];
    size_t room = strlen(KEPT_HEAD) + sizeof here + strlen(config) + 3;
    if (!cache_root() || !getcwd(here, sizeof here)) return 0;
    for (const char *const *name = NEVER_WITH; *name; name++)
        if (*value_of(*name)) return 0;
    for (const char *const *name = ENVIRONMENT; *name; name++) room += strlen(value_of(*name)) + 1;
    for (char *const *word = command; *word; word++) room += strlen(*word) + 1;
    Text text = {take(room), 0};
    add_word(&text, KEPT_HEAD);
    add_word(&text, here);
    add_word(&text, config);
    for (const char *const *name = ENVIRONMENT; *name; name++) add_word(&text, value_of(*name));
    for (char *const *word = command; *word; word++) add_word(&text, *word);
    hex_digest(text.bytes, text.size - 1, key);
    return 1;
}

// The next field of an entry, which a zero ends; NULL at the end.
static char *next_field(char **at, const char *end) {
    char *field = *at, *zero = field < end ? memchr(field, 0, (size_t)(end - field)) : NULL;
    if (zero) *at = zero + 1;
    return zero ? field : NULL;
}

static long next_count(char **at, const char *end) {
    char *field = next_field(at, end), *rest;
    long count = field ? strtol(field, &rest, 10) : -1;
    return field && *field && !*rest ? count : -1;
}

static int is_this_boot(const char *boot) {
    char now[64];
    FILE *file = *boot ? fopen(BOOT, "re") : NULL;
    int same = !*boot || (file && fgets(now, sizeof now, file) && !strncmp(now, boot, strcspn(now, "\n")) &&
                          strlen(boot) == strcspn(now, "\n"));
    if (file) fclose(file);
    return same;
}

// True if a file has the time, size and inode of an entry: "TIME SIZE INODE PATH".
static int has_state(const char *state) {
    char now[100];
    struct stat status;
    const char *path = state;
    for (int i = 0; i < 3; i++)
        if (!(path = strchr(path, ' '))) return 0;
        else path++;
    if (stat(path, &status)) return 0;
    long long seconds = status.st_mtim.tv_sec, size = status.st_size;
    unsigned long long inode = status.st_ino;
    sprintf(now, "%lld %lld %llu ", seconds * 1000000000 + status.st_mtim.tv_nsec, size, inode);
    return strlen(now) == (size_t)(path - state) && !strncmp(now, state, strlen(now));
}

// True if a file has the contents of an entry: "DIGEST PATH".
static int has_content(const char *row) {
    Text text;
    char hex[HEX_BYTES];
    if (strlen(row) < HEX_BYTES || !read_file(row + HEX_BYTES, 0, 0, &text)) return 0;
    hex_digest(text.bytes, text.size, hex);
    free(text.bytes);
    return !strncmp(row, hex, HEX_BYTES - 1) && row[HEX_BYTES - 1] == ' ';
}

// Fills in the object of a key, if all that it was made from is as it was; else 0.
static int find_object(const char *key, Kept *kept) {
    char name[HEX_BYTES], *folder = joined(cache_root(), "/", KEPT_FOLDER), *path;
    unsigned char digest[DIGEST_BYTES];
    struct stat status;
    Text text;
    hex_digest(key, strlen(key), name);
    path = joined(folder, "/", name);
    if (stat(folder, &status) || !is_own(&status) || !read_file(path, O_NOFOLLOW | O_NONBLOCK, 1, &text)) return 0;
    if (text.size < DIGEST_BYTES) return 0;
    unsigned char *whole = take(text.size); // the key's digest in place of the entry's
    memcpy(whole, text.bytes, text.size);
    digest_of(key, strlen(key), whole);
    digest_of(whole, text.size, digest);
    if (memcmp(digest, text.bytes, DIGEST_BYTES)) return 0;
    char *at = text.bytes + DIGEST_BYTES, *end = text.bytes + text.size;
    const char *boot = next_field(&at, end), *field;
    kept->message = next_field(&at, end);
    if (!boot || !kept->message || !is_this_boot(boot)) return 0;
    long count = next_count(&at, end);
    if (count < 0) return 0;
    for (long i = 0; i < count; i++)
        if (!(field = next_field(&at, end)) || !has_state(field)) return 0;
    count = next_count(&at, end);
    if (count < 0) return 0;
    for (long i = 0; i < count; i++)
        if (!(field = next_field(&at, end)) || !has_content(field)) return 0;
    kept->object = at;
    kept->size = (size_t)(end - at);
    utimensat(AT_FDCWD, path, NULL, 0); // the least recently used entries are removed first
    return 1;
}

// Puts an object in place of the compiler's; 0 if it cannot.
static int put_object(const Kept *kept, const char *output) {
    char *path = realpath(output, NULL), *made;
    struct stat status;
    unsigned long long number;
    if (!path || stat(path, &status) || getrandom(&number, sizeof number, 0) != sizeof number) return 0;
    made = take(strlen(path) + 32);
    sprintf(made, "%s.%016llx.part", path, number);
    int file = open(made, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, status.st_mode & 0777);
    FILE *out = file < 0 ? NULL : fdopen(file, "w");
    if (!out) return 0;
    int good = fwrite(kept->object, 1, kept->size, out) == kept->size;
    good = !fclose(out) && good && !rename(made, path);
    if (!good) unlink(made);
    return good;
}

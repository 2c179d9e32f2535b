// The short way of `mavcg launch` as a program: it decides what mavcg/program/cold_launch.py does, without a start of
// Python, which takes longer than many files take to compile. Whatever it does not know goes to `mavcg launch` itself.
//
// cold_launch.h is made by launch_program.py: the words of options, names and the command of mavcg, from the Python.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cold_launch.h"

extern char **environ;

typedef struct {
    char *bytes; // a zero follows the last
    size_t size;
} Text;

typedef struct {
    const char *source, *output, *depends; // depends: "" for none
    int direct;                            // 0 under ccache
} Compiled;

typedef struct {
    Text text;
    char **files; // that objects depend on
    long file_count;
    char *words, *end; // each with a zero after it, up to `end`
} Note;

static void *take(size_t size) {
    void *memory = calloc(size + 1, 1);
    if (!memory) abort();
    return memory;
}

static char *joined(const char *first, const char *second, const char *third) {
    char *text = take(strlen(first) + strlen(second) + strlen(third));
    return strcat(strcat(strcpy(text, first), second), third);
}

static int is_one_of(const char *word, const char *const *words) {
    for (; *words; words++)
        if (!strcmp(word, *words)) return 1;
    return 0;
}

static int begins_with_one_of(const char *word, const char *const *words) {
    for (; *words; words++)
        if (!strncmp(word, *words, strlen(*words))) return 1;
    return 0;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The suffix of a path, from its dot on; "" for none. Dots that a name begins with are no suffix's.
static const char *suffix_of(const char *path) {
    const char *name = base_name(path);
    name += strspn(name, ".");
    const char *dot = strrchr(name, '.');
    return dot ? dot : "";
}

static char *without_suffix(const char *path) {
    char *stem = joined(path, "", "");
    stem[strlen(path) - strlen(suffix_of(path))] = 0;
    return stem;
}

// True for gcc and clang, also with a target before the name and a version after it.
static int is_compiler(const char *path) {
    char *name = joined(base_name(path), "", "");
    char *last;
    while ((last = strrchr(name, '-')) && last[1] && last[1 + strspn(last + 1, "0123456789.")] == 0 &&
           strpbrk(last, "0123456789"))
        *last = 0;
    return is_one_of(last ? last + 1 : name, COMPILERS);
}

// The number of leading words that run a compiler: gcc, ccache gcc, zig cc; 0 for others.
static int compiler_length(char *const *command) {
    int at = is_one_of(base_name(*command), LAUNCHERS);
    if (!command[at]) return 0;
    if (!strcmp(base_name(command[at]), ZIG))
        return command[at + 1] && is_one_of(command[at + 1], ZIG_TOOLS) ? at + 2 : 0;
    return is_compiler(command[at]) ? at + 1 : 0;
}

typedef struct {
    const char *output, *depends, *input; // NULL where a command has none; the last
    int inputs, sources, others;          // of the inputs, those that are sources, and neither sources nor linked
    int compiles, writes_depends, no_code;
} Words;

// Reads the options and inputs of a command; 0 if it has a word that is not known here.
static int read_words(char *const *command, Words *read) {
    int start = compiler_length(command);
    *read = (Words){0};
    if (!start) return 0;
    for (command += start; *command; command++) {
        const char *word = *command;
        if (is_one_of(word, WITH_VALUE)) {
            if (!command[1] || !*command[1]) return 0;
            command++;
            if (!strcmp(word, "-o")) read->output = *command;
            if (!strcmp(word, "-MF")) read->depends = *command;
        } else if (is_one_of(word, ALONE)) {
            read->compiles |= !strcmp(word, "-c");
            read->writes_depends |= !strcmp(word, "-MD") || !strcmp(word, "-MMD");
        } else if (is_one_of(word, NO_CODE)) {
            read->no_code = 1;
        } else if (*word && *word != '-' && *word != '@') {
            read->input = word;
            read->inputs++;
            if (is_one_of(suffix_of(word), SOURCES)) {
                read->sources++;
            } else if (!is_one_of(suffix_of(word), LINKED)) {
                read->others++;
            }
        } else if (!begins_with_one_of(word, BEGIN) || begins_with_one_of(word, NOT)) {
            return 0;
        }
    }
    return 1;
}

// Fills in what a command compiles; 0 if it has a word that is not known here.
static int plain_command(char *const *command, Compiled *compiled) {
    Words read;
    if (!read_words(command, &read) || !read.compiles || read.no_code || read.inputs != 1 || !read.sources) return 0;
    char *stem = without_suffix(base_name(read.input));
    compiled->direct = !is_one_of(base_name(*command), LAUNCHERS);
    compiled->source = read.input;
    compiled->output = read.output ? read.output : joined(stem, ".o", "");
    if (!read.writes_depends) {
        compiled->depends = "";
    } else if (read.depends) {
        compiled->depends = read.depends;
    } else {
        compiled->depends = joined(read.output ? without_suffix(read.output) : stem, ".d", "");
    }
    return 1;
}

// The program or library that a command makes of sources at once; "" if it makes no code of sources; NULL if it makes
// objects, or has a word that is not known here.
static const char *linked_output(char *const *command) {
    Words read;
    if (!read_words(command, &read)) return NULL;
    if (!read.inputs || read.no_code) return "";
    if (read.compiles || read.others) return NULL;
    return !read.sources ? "" : read.output ? read.output : "a.out";
}

// The absolute path without "." and "..", as the words say; NULL without a current folder.
static char *absolute(const char *path) {
    char here[PATH_MAX];
    if (!getcwd(here, sizeof here) || *here != '/') return NULL;
    char *whole = *path == '/' ? joined(path, "", "") : joined(here, "/", path), *rest = whole, *part;
    char *clean = take(strlen(whole) + 1), *end = clean;
    if (!strncmp(whole, "//", 2) && whole[2] != '/') return NULL; // may be another root (POSIX, 4.13)
    while ((part = strsep(&rest, "/"))) {
        if (!strcmp(part, "..")) {
            while (end > clean && *--end != '/') continue;
            *end = 0;
        } else if (*part && strcmp(part, ".")) {
            end += sprintf(end, "/%s", part);
        }
    }
    return *clean ? clean : strcpy(clean, "/");
}

// The path of the mavcg.toml in this folder or the nearest one above it; NULL if there is none.
static char *nearest(char *folder) {
    for (;;) {
        char *path = joined(strcmp(folder, "/") ? folder : "", "/", CONFIG_NAME);
        struct stat status;
        if (!stat(path, &status) && S_ISREG(status.st_mode)) return path;
        if (!strcmp(folder, "/")) return NULL;
        char *slash = strrchr(folder, '/');
        slash[slash == folder] = 0;
    }
}

static char *config_of(const Compiled *compiled) {
    char *here = absolute("."), *source = absolute(compiled->source), *found;
    if (!here || !source) return NULL;
    if ((found = nearest(here))) return found;
    *strrchr(source, '/') = 0;
    return nearest(*source ? source : joined("/", "", ""));
}

static const char *value_of(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

// The folder of the user's cache; NULL without one.
static char *cache_root(void) {
    const char *named = value_of("MAVCG_CACHE"), *base = value_of("XDG_CACHE_HOME"), *home = value_of("HOME");
    const char *const off[] = {"off", "0", "no"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (!strcasecmp(named, off[i])) return NULL;
    if (*named) return joined(named, "", "");
    if (*base != '/' && *home != '/') return NULL;
    return *base == '/' ? joined(base, base[strlen(base) - 1] == '/' ? "" : "/", "mavcg")
                        : joined(home, home[strlen(home) - 1] == '/' ? "" : "/", ".cache/mavcg");
}

static char *note_path(const char *config) {
    char *root = cache_root();
    if (!root) return NULL;
    unsigned __int128 prime = ((unsigned __int128)1 << 127) - 1, number = 0;
    for (const char *byte = config; *byte; byte++) {
        unsigned __int128 high = number >> 119; // 256 number = 2^127 high + the rest, and 2^127 is 1
        number = ((number << 8) & prime) + high + (unsigned char)*byte;
        if (number >= prime) number -= prime;
    }
    char name[33];
    snprintf(name, sizeof name, "%016llx%016llx", (unsigned long long)(number >> 64), (unsigned long long)number);
    return joined(root, root[strlen(root) - 1] == '/' ? "launch/" : "/launch/", name);
}

static int is_own(const struct stat *status) { return status->st_uid == geteuid() && !(status->st_mode & 022); }

// Reads a regular file whole; 0 if it cannot. own: only one that no other user could write.
static int read_file(const char *path, int flags, int own, Text *text) {
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | flags);
    int good = file >= 0 && !fstat(file, &status) && S_ISREG(status.st_mode) && (!own || is_own(&status));
    if (good) {
        text->size = (size_t)status.st_size;
        text->bytes = take(text->size);
        size_t at = 0;
        while (at < text->size) {
            ssize_t got = read(file, text->bytes + at, text->size - at);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            at += (size_t)got;
        }
        good = at == text->size;
    }
    if (file >= 0) close(file);
    return good;
}

static int contains(const Text *text, const char *word) {
    return memmem(text->bytes, text->size, word, strlen(word)) != NULL;
}

// Adds what identifies a file's contents to `state`, which has room for it; 0 if it cannot be read.
static int add_state(char *state, const char *path) {
    struct stat status;
    if (stat(path, &status)) return 0;
    long long seconds = status.st_mtim.tv_sec, size = status.st_size;
    unsigned long long inode = status.st_ino;
    sprintf(state + strlen(state), "%s%s %lld %lld %llu", *state ? " " : "", path,
            seconds * 1000000000 + status.st_mtim.tv_nsec, size, inode);
    return 1;
}

static int read_note(const char *config, Note *note) {
    char *path = note_path(config), *folder, *end, *at, *parts[4];
    struct stat status;
    if (!path) return 0;
    folder = joined(path, "", "");
    *strrchr(folder, '/') = 0;
    if (stat(folder, &status) || !is_own(&status)) return 0;
    if (!read_file(path, O_NOFOLLOW | O_NONBLOCK, 1, &note->text)) return 0;
    at = note->text.bytes;
    end = at + note->text.size;
    for (int i = 0; i < 4; i++) {
        if (at >= end) return 0;
        parts[i] = at;
        at += strlen(at) + 1;
    }
    note->file_count = strtol(parts[3], &folder, 10);
    if (*folder || !*parts[3] || note->file_count < 0 || note->file_count > (long)note->text.size) return 0;
    note->files = take((size_t)note->file_count * sizeof *note->files);
    for (long i = 0; i < note->file_count; i++) {
        if (at >= end) return 0;
        note->files[i] = at;
        at += strlen(at) + 1;
    }
    note->words = at;
    note->end = end;
    for (const char *word = at; word < end; word += strlen(word) + 1)
        if (!*word) return 0;
    char *state = take(strlen(config) + strlen(parts[2]) + 200);
    if (strcmp(parts[0], NOTE_HEAD) || !*parts[1] || !add_state(state, config)) return 0;
    if (*parts[2] && !add_state(state, parts[2])) return 0;
    return !strcmp(parts[1], state);
}

static int has_a_word(const Text *text, const Note *note) {
    for (const char *word = note->words; word < note->end; word += strlen(word) + 1)
        if (contains(text, word)) return 1;
    return 0;
}

// The colon of the first rule of a dependency file; NULL without one.
static const char *first_colon(const Text *text) {
    const char *end = text->bytes + text->size;
    for (const char *at = text->bytes; (at = memchr(at, ':', (size_t)(end - at))); at++)
        if ((at == text->bytes || at[-1] != '\\') && at[1] && strchr(" \t\n\\", at[1])) return at;
    return NULL;
}

// Adds files to the first rule of a dependency file, and an empty rule for each; 0 if it cannot.
static int add_dependencies(const char *path, const Note *note) {
    Text text;
    struct stat status;
    if (stat(path, &status) || !S_ISREG(status.st_mode)) return 1;
    size_t room = 0, added = 0;
    for (long i = 0; i < note->file_count; i++) {
        if (strpbrk(note->files[i], " \t#$\n")) return 0;
        room += 2 * strlen(note->files[i]) + 4;
    }
    if (!read_file(path, 0, 0, &text) || strlen(text.bytes) != text.size) return 0;
    const char *colon = first_colon(&text);
    char *names = take(room), *rules = take(room), *made = take(strlen(path) + 32);
    for (long i = 0; i < note->file_count; i++) {
        if (contains(&text, note->files[i])) continue;
        strcat(strcat(names, " "), note->files[i]);
        strcat(strcat(strcat(rules, "\n"), note->files[i]), ":\n");
        added++;
    }
    if (!colon || !added) return 1;
    unsigned long long number;
    if (getrandom(&number, sizeof number, 0) != sizeof number) return 0;
    sprintf(made, "%s.%016llx.part", path, number);
    int file = open(made, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    FILE *out = file < 0 ? NULL : fdopen(file, "w");
    if (!out) return 0;
    size_t before = (size_t)(colon + 1 - text.bytes);
    fwrite(text.bytes, 1, before, out);
    fputs(names, out);
    fwrite(text.bytes + before, 1, text.size - before, out);
    fputs(rules, out);
    int good = !ferror(out);
    good = !fclose(out) && good && !rename(made, path);
    if (!good) unlink(made);
    return good;
}

#include "kept_object.h"
#include "launch_door.h"

static volatile sig_atomic_t compiler;

static void pass_on(int number) {
    if (compiler > 0) kill((pid_t)compiler, number);
}

// Runs the compiler; returns its exit status as shells have it, -1 if it cannot be run.
static int run_compiler(char *const *command) {
    posix_spawnattr_t attributes;
    sigset_t usual, held;
    pid_t process;
    int status;
    const int passed[] = {SIGTERM, SIGHUP};
    sigemptyset(&usual);
    sigemptyset(&held);
    posix_spawnattr_init(&attributes);
    struct sigaction pass = {.sa_handler = pass_on, .sa_flags = SA_RESTART}, before, interrupt;
    for (int i = 0; i < 2; i++) sigaddset(&held, passed[i]);
    sigprocmask(SIG_BLOCK, &held, &usual);
    posix_spawnattr_setsigmask(&attributes, &usual);
    sigemptyset(&held);
    sigaction(SIGINT, NULL, &interrupt);
    if (interrupt.sa_handler == SIG_DFL) {
        sigaddset(&held, SIGINT); // the compiler gets it too, and removes its files
        signal(SIGINT, SIG_IGN);
    }
    for (int i = 0; i < 2; i++)
        if (!sigaction(passed[i], NULL, &before) && before.sa_handler == SIG_DFL) sigaction(passed[i], &pass, NULL);
    posix_spawnattr_setsigdefault(&attributes, &held);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    int failed = posix_spawnp(&process, *command, NULL, &attributes, command, environ);
    compiler = failed ? 0 : process;
    sigprocmask(SIG_SETMASK, &usual, NULL);
    if (failed) {
        sigaction(SIGINT, &interrupt, NULL);
        return -1;
    }
    while (waitpid(process, &status, 0) < 0)
        if (errno != EINTR) return -1;
    compiler = 0;
    sigaction(SIGINT, &interrupt, NULL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// True if a command that made no object certainly needs no message. output: as of linked_output.
static int is_silent(const char *output, const char *config) {
    Note note;
    Text text;
    char *here = absolute(".");
    if (!*output) return !*value_of(UNDER_CCACHE);
    config = config && *config ? absolute(config) : here ? nearest(here) : NULL;
    return config && read_note(config, &note) && read_file(output, 0, 0, &text) && !has_a_word(&text, &note);
}

// Lets `mavcg launch` go on. ran: the compiler did already, and succeeded.
static int launch(int count, char **arguments, int ran) {
    const char *const before[] = {MAVCG, "launch", "--compiled"};
    const size_t mavcg = sizeof before / sizeof *before - 1; // words up to launch
    size_t length = mavcg + (size_t)ran;
    char **command = take((length + (size_t)count) * sizeof *command);
    for (size_t i = 0; i < length; i++) command[i] = (char *)before[i];
    for (int i = 1; i < count; i++) command[length + (size_t)i - 1] = arguments[i];
    int status = hand_over(command + mavcg);
    if (status >= 0) return status;
    execv(command[0], command);
    fprintf(stderr, "mavcg: launch: %s: %s; make this program again by `mavcg launch --program`\n", command[0],
            strerror(errno));
    return 2;
}

int main(int count, char **arguments) {
    char *config = getenv("MAVCG_CONFIG"), **command = arguments + 1;
    for (; *command && **command == '-' && strcmp(*command, "--"); command++) {
        if (!strncmp(*command, "--config=", 9)) {
            config = *command + 9;
        } else if (!strcmp(*command, "--config") && command[1]) {
            config = *++command;
        } else if (strcmp(*command, "--strict")) {
            return launch(count, arguments, 0);
        }
    }
    Compiled compiled;
    Note note;
    Text text;
    if (!*command) return launch(count, arguments, 0);
    if (!plain_command(command, &compiled)) {
        const char *output = linked_output(command);
        int ended = output ? run_compiler(command) : -1;
        if (ended < 0) return launch(count, arguments, 0);
        return ended || is_silent(output, config) ? ended : launch(count, arguments, 1);
    }
    config = config && *config ? absolute(config) : config_of(&compiled);
    if (!config || !read_note(config, &note)) return launch(count, arguments, 0);
    Kept kept;
    char key[HEX_BYTES];
    int has_key = object_key(command, config, key), found = 0;
    if (compiled.direct &&
        !strcmp(suffix_of(compiled.source), ".c")) { // only an object from the cache needs the compiler's own
        if (!read_file(compiled.source, 0, 0, &text)) return launch(count, arguments, 0);
        if (has_a_word(&text, &note) && !(found = has_key && find_object(key, &kept)))
            return launch(count, arguments, 0);
    }
    int status = run_compiler(command);
    if (status > 0) return status;
    if (status < 0) return launch(count, arguments, 0);
    if (!read_file(compiled.output, 0, 0, &text)) return launch(count, arguments, 1);
    int is_hot = has_a_word(&text, &note);
    if (is_hot && !found && !(has_key && find_object(key, &kept))) return launch(count, arguments, 1);
    if (*compiled.depends && !add_dependencies(compiled.depends, &note)) return launch(count, arguments, 1);
    if (!is_hot) return 0;
    if (!put_object(&kept, compiled.output)) return launch(count, arguments, 1);
    fprintf(stderr, "%s\n", kept.message);
    return 0;
}

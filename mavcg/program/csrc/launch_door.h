// Hands a command to the resident process of `mavcg launch`, as mavcg/program/launch_door.py does, whose words and order
// of circumstances these are. Included by cold_launch.c.
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

static void add_bytes(Text *text, const char *bytes, size_t size) {
    char *more = realloc(text->bytes, text->size + size + 1);
    if (!more) abort();
    memcpy(more + text->size, bytes, size);
    text->bytes = more;
    text->size += size;
    more[text->size] = 0;
}

// Reads a file of /proc, whose size nothing says; 0 if it cannot.
static int add_proc_file(Text *text, const char *path) {
    char part[4096];
    ssize_t got;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    while ((got = read(file, part, sizeof part)) > 0) add_bytes(text, part, (size_t)got);
    close(file);
    return got == 0;
}

static int by_bytes(const void *first, const void *second) {
    return strcmp(*(char *const *)first, *(char *const *)second);
}

static void add_part(Text *text, const char *part) {
    add_bytes(text, "\n", 1);
    add_bytes(text, part, strlen(part));
}

// What a command and the resident process must have in common; 0 where the system does not say it.
static int circumstances(Text *text) {
    Text status = {take(0), 0};
    char *rest, *line, link[64], path[64], numbers[100];
    struct stat root;
    int entries = 0, kept = 0;
    add_bytes(text, IDENTITY, strlen(IDENTITY));
    if (!add_proc_file(&status, "/proc/self/status")) return 0;
    for (rest = status.bytes; (line = strsep(&rest, "\n"));)
        if (begins_with_one_of(line, STATUS)) add_part(text, line);
    for (const char *const *file = FILES; *file; file++) {
        add_part(text, "");
        if (!add_proc_file(text, *file)) return 0;
    }
    for (const char *const *name = NAMESPACES; *name; name++) {
        snprintf(path, sizeof path, "/proc/self/ns/%s", *name);
        ssize_t length = readlink(path, link, sizeof link - 1);
        if (length < 0) return 0;
        link[length] = 0;
        add_part(text, link);
    }
    if (stat("/", &root)) return 0;
    snprintf(numbers, sizeof numbers, "%d %d %llu %llu", getpriority(PRIO_PROCESS, 0), sched_getscheduler(0),
             (unsigned long long)root.st_dev, (unsigned long long)root.st_ino);
    add_part(text, numbers);
    while (environ[entries]) entries++;
    char **found = take((size_t)entries * sizeof *found);
    for (int i = 0; i < entries; i++)
        if (begins_with_one_of(environ[i], VARIABLES)) found[kept++] = environ[i];
    qsort(found, (size_t)kept, sizeof *found, by_bytes);
    for (int i = 0; i < kept; i++) add_part(text, found[i]);
    return 1;
}

static int is_off(const char *value) {
    return !strcasecmp(value, "off") || !strcmp(value, "0") || !strcasecmp(value, "no");
}

static int not_used(const char *why) {
    fprintf(stderr, "mavcg: launch: the resident process is not used: %s; this command does its own work\n", why);
    return -1;
}

// A connection to the resident process of this user; -1 if there is none, or it is not used, which a line then says.
static int connect_to(const char *folder_path, const char *name) {
    struct stat status, of_socket;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t size = sizeof peer;
    int folder = open(folder_path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || fstat(folder, &status) || fstatat(folder, name, &of_socket, AT_SYMLINK_NOFOLLOW)) return -1;
    if (status.st_uid != geteuid() || of_socket.st_uid != geteuid() || status.st_mode & 077)
        return not_used("others can enter its folder, or it is another user's; remove it");
    if (!S_ISSOCK(of_socket.st_mode)) return not_used("there is another file in the place of its socket; remove it");
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0) return not_used(strerror(errno));
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", folder, name); // a path of any length
    int failed = connect(connection, (struct sockaddr *)&address, sizeof address);
    close(folder);
    if (failed) return not_used(errno == ECONNREFUSED ? "is there no more" : strerror(errno));
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.uid != geteuid())
        return not_used("another user listens there; remove its socket");
    return connection;
}

static int send_whole(int connection, const Text *text) {
    for (size_t at = 0; at < text->size;) {
        ssize_t sent = send(connection, text->bytes + at, text->size - at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return 0;
        at += (size_t)sent;
    }
    return 1;
}

// Sends what comes before a command: the length of its text, and descriptors of its folder and streams.
static int send_head(int connection, uint64_t size) {
    char head[sizeof MAGIC - 1 + 8];
    int here = open(".", O_PATH | O_CLOEXEC), sent[DESCRIPTORS] = {here, 0, 1, 2};
    union {
        struct cmsghdr aligned;
        char bytes[CMSG_SPACE(sizeof sent)];
    } control = {0};
    struct iovec part = {head, sizeof head};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    memcpy(head, MAGIC, sizeof MAGIC - 1);
    for (size_t i = 0; i < 8; i++) head[sizeof MAGIC - 1 + i] = (char)(size >> 8 * i);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof sent);
    memcpy(CMSG_DATA(header), sent, sizeof sent);
    int good = here >= 0 && sendmsg(connection, &message, MSG_NOSIGNAL) == (ssize_t)sizeof head;
    if (here >= 0) close(here);
    return good;
}

// Has the resident process run `mavcg launch` with these words; its exit status, -1 if it cannot or does not.
static int hand_over(char *const *words) {
    Text common = {take(0), 0}, text = {take(0), 0};
    char name[HEX_BYTES], count[24];
    unsigned char answer[2];
    int length = 0;
    char *root = cache_root();
    if (is_off(value_of(SERVER_VARIABLE)) || !root || !circumstances(&common)) return -1;
    hex_digest(common.bytes, common.size, name);
    name[NAME_DIGITS] = 0;
    int connection = connect_to(joined(root, "/", SERVER_FOLDER), name);
    if (connection < 0) return -1;
    while (words[length]) length++;
    snprintf(count, sizeof count, "%d", length);
    add_bytes(&text, count, strlen(count) + 1);
    for (int i = 0; i < length; i++) add_bytes(&text, words[i], strlen(words[i]) + 1);
    for (char **entry = environ; *entry; entry++) add_bytes(&text, *entry, strlen(*entry) + 1);
    if (!send_head(connection, text.size) || !send_whole(connection, &text)) return not_used(strerror(errno));
    ssize_t got;
    while ((got = recv(connection, answer, sizeof answer, MSG_WAITALL)) < 0 && errno == EINTR) continue;
    close(connection);
    if (got == sizeof answer && *answer == 'd') return answer[1];
    return not_used(got > 0 && *answer == 's' ? "mavcg has changed since it started" : "it did not come to an end");
}

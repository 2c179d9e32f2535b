/* The first process of the kernel that is booted: mounts what Linux shows, then runs the lines of /script one after the other.
 *
 * A line: words; those with '=' before the program are its environment. /midr/N is put in the place of CPU N's MIDR in
 * sysfs, for an emulated machine has cores of one kind only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CPUS = 64, WORDS = 64 };

static void run(char *line) {
    char *words[WORDS + 1] = {0}, *variables[WORDS + 1] = {0};
    int count = 0, named = 0, status = 0;
    for (char *word = strtok(line, " "); word && count < WORDS; word = strtok(NULL, " "))
        if (!count && strchr(word, '=')) variables[named++] = word;
        else words[count++] = word;
    if (!count) return;
    pid_t child = fork();
    if (!child) {
        dup2(1, 2);
        execve(words[0], words, variables);
        perror(words[0]);
        _exit(127);
    }
    waitpid(child, &status, 0);
    printf("\n@end %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    fflush(stdout);
}

int main(void) {
    char line[4096], from[64], to[128];
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
    mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL);
    for (int cpu = 0; cpu < CPUS; cpu++) {
        snprintf(from, sizeof from, "/midr/%d", cpu);
        snprintf(to, sizeof to, "/sys/devices/system/cpu/cpu%d/regs/identification/midr_el1", cpu);
        if (!access(from, R_OK) && mount(from, to, NULL, MS_BIND, NULL)) perror(to);
    }
    FILE *script = fopen("/script", "r");
    while (script && fgets(line, sizeof line, script)) {
        line[strcspn(line, "\n")] = 0;
        printf("\n@begin %s\n", line);
        fflush(stdout);
        run(line);
    }
    printf("\n@done\n");
    fflush(stdout);
    sync();
    reboot(RB_POWER_OFF);
    return 0;
}

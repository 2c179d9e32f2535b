/* The CPU that this program runs on: being bound to it, what it is, its clock and its governor. */

#include <sched.h>

#if defined(__linux__)
#include <sys/auxv.h>
#include <sys/syscall.h>

static int this_cpu(void) {
    unsigned cpu = 0;
    return syscall(SYS_getcpu, &cpu, NULL, NULL) ? NO_CPU : (int)cpu;
}

static int pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= CPU_SETSIZE) return errno = EINVAL, 0;
    CPU_SET(cpu, &set);
    return !sched_setaffinity(0, sizeof set, &set) && (this_cpu() == NO_CPU || this_cpu() == cpu);
}
#else
static int this_cpu(void) { return NO_CPU; }

static int pin(int cpu) { return (void)cpu, errno = ENOSYS, 0; }
#endif

/* How often the scheduler took the core away. */
static long losses(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) ? 0 : usage.ru_nivcsw;
}

/* The first word of a file about a CPU; "" where it cannot be read. */
static void cpu_word(char *to, size_t size, int cpu, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", cpu, name);
    to[0] = 0;
    FILE *file = cpu == NO_CPU ? NULL : fopen(path, "r");
    if (!file) return;
    if (!fgets(to, (int)size, file)) to[0] = 0;
    fclose(file);
    for (char *at = to; *at; at++)
        if (*at < '!' || *at > '~' || *at == '"' || *at == '\\') *at = 0;
}

/* 0: not known. */
static int64_t current_khz(int cpu) {
    char word[32];
    cpu_word(word, sizeof word, cpu, "cpufreq/scaling_cur_freq");
    return strtoll(word, NULL, 10);
}

enum { MOST_ZONES = 64, COLDEST_MC = -40000, HOTTEST_MC = 150000 }; /* a sensor of nothing says less, or more */

/* The highest temperature of the machine's zones in thousandths of a degree; 0: not known. */
static int64_t hottest_mc(void) {
    int64_t most = 0;
    for (int zone = 0; zone < MOST_ZONES; zone++) {
        char path[64], text[32];
        snprintf(path, sizeof path, "/sys/class/thermal/thermal_zone%d/temp", zone);
        FILE *file = fopen(path, "r");
        if (!file) continue; /* numbers may have gaps */
        if (fgets(text, sizeof text, file)) {
            int64_t mc = strtoll(text, NULL, 10);
            if (mc > COLDEST_MC && mc < HOTTEST_MC && (!most || mc > most)) most = mc;
        }
        fclose(file);
    }
    return most;
}

/* A CPU's clock and the machine's temperature; 0 where they cannot be read. */
struct condition {
    int64_t khz, mc;
};

static struct condition condition_of(int cpu) { return (struct condition){current_khz(cpu), hottest_mc()}; }

static void print_conditions(struct condition before, struct condition after) {
    printf(", \"khz\": [%lld, %lld], \"mc\": [%lld, %lld]", (long long)before.khz, (long long)after.khz,
           (long long)before.mc, (long long)after.mc);
}

/* MIDR_EL1 of an AArch64 core, from sysfs, else from the register where the kernel lets us; how: where from. */
static uint64_t midr_of(int cpu, const char **how) {
    char word[32];
    cpu_word(word, sizeof word, cpu, "regs/identification/midr_el1");
    uint64_t midr = strtoull(word, NULL, 16);
    *how = midr ? "sysfs" : "";
#if defined(__linux__) && defined(__aarch64__)
    if (!midr && getauxval(AT_HWCAP) >> 11 & 1) { /* HWCAP_CPUID */
        __asm__("mrs %0, midr_el1" : "=r"(midr));
        *how = "register";
    }
#endif
    return midr;
}

#if defined(__x86_64__)
#include <cpuid.h>

/* Vendor, and family and model with their extensions, as /proc/cpuinfo has them (Intel 64 SDM vol. 2A, CPUID). */
static void print_x86(void) {
    unsigned a, b, c, d;
    char vendor[13] = "";
    if (!__get_cpuid(0, &a, &b, &c, &d)) return;
    memcpy(vendor, &b, 4), memcpy(vendor + 4, &d, 4), memcpy(vendor + 8, &c, 4);
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    unsigned family = a >> 8 & 0xF, model = a >> 4 & 0xF;
    if (family == 6 || family == 15) model |= a >> 12 & 0xF0;
    if (family == 15) family += a >> 20 & 0xFF;
    unsigned kind = __get_cpuid_count(0x1A, 0, &a, &b, &c, &d) ? a >> 24 : 0;
    printf(", \"vendor\": \"%s\", \"family\": %u, \"model\": %u, \"kind\": %u", vendor, family, model, kind);
}
#else
static void print_x86(void) {}
#endif

static void print_machine(const char *name, int jobs) {
    char governor[32];
    const char *how;
    int cpu = this_cpu();
    uint64_t midr = midr_of(cpu, &how);
    cpu_word(governor, sizeof governor, cpu, "cpufreq/scaling_governor");
    printf("{\"%s\": {\"jobs\": %d, \"cpu\": %d, \"midr\": %llu, \"midr_from\": \"%s\"", name, jobs, cpu,
           (unsigned long long)midr, how);
    print_x86();
    printf(", \"governor\": \"%s\", \"khz\": %lld, \"lost\": %ld}}\n", governor, (long long)current_khz(cpu), losses());
    fflush(stdout);
}

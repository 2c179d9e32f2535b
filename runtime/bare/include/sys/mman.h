#pragma once
enum { PROT_NONE = 0, PROT_READ = 1, PROT_WRITE = 2, MAP_PRIVATE = 2, MAP_ANONYMOUS = 32 };
#define MAP_FAILED ((void *)-1)
void *mmap(void *at, unsigned long bytes, int rights, int flags, int file, long offset);
int mprotect(void *at, unsigned long bytes, int rights);

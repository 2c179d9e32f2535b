#pragma once
typedef unsigned long size_t;
void *malloc(unsigned long bytes);
void *aligned_alloc(unsigned long align, unsigned long bytes);
void free(void *memory);
_Noreturn void exit(int status);

#pragma once
typedef unsigned long size_t;
typedef struct FILE FILE;
extern FILE *stdin, *stdout;
unsigned long fread(void *to, unsigned long size, unsigned long count, FILE *from);
unsigned long fwrite(const void *from, unsigned long size, unsigned long count, FILE *to);

#pragma once
void *memcpy(void *to, const void *from, unsigned long bytes);
void *memset(void *to, int byte, unsigned long bytes);
void *memmove(void *to, const void *from, unsigned long bytes);

/* NEED(condition): the program goes on only if it holds; else it ends with status 3 and says which one does not. */
#ifndef NEED_H
#define NEED_H
#include <stdio.h>
#include <unistd.h>

#define NEED(condition)                                                             \
    do                                                                              \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            _exit(3);                                                               \
        }                                                                           \
    while (0)

#endif

/* Keeps the library loaded while contexts exist. */
#include "engine_library.h"

#include "internal.h"

struct library_of_address { /* Dl_info of <dlfcn.h>, declared here because the header differs between systems */
    const char *file;
    void *base;
    const char *symbol;
    void *address;
};

enum { OPEN_NOW = 2, OPEN_IF_LOADED = 4 }; /* RTLD_NOW and RTLD_NOLOAD of glibc, musl and 64-bit bionic */

extern int dladdr(const void *address, struct library_of_address *library) MAVCG_WEAK_IMPORT;
extern void *dlopen(const char *file, int flags) MAVCG_WEAK_IMPORT;

MAVCG_PRIVATE void *keep_loaded(const void *address) {
    struct library_of_address own;
    if (!dladdr || !dlopen || !unload_library || !dladdr(address, &own)) return NULL;
    return dlopen(own.file, OPEN_NOW | OPEN_IF_LOADED);
}

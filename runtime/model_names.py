"""Names in the C code of a model library: of its functions, its header, and its hidden symbols."""

from mavcg.specs.model_program import Program
from mavcg.text.safe_text import c_identifier

EXPORTED = "mavcg_model_"  # prefix of all names that a model library exports
_SHORT_OF_LIBC = {"pthread", "thrd", "timer"}  # pthread_create, thrd_create, timer_create: often used beside a model


# Headers that C programs and libc's own headers include (C23, 7; POSIX.1-2024, 14; glibc). A header of the same name
# beside the program, in a folder given with -I, would be included instead.
_HEADERS = frozenset(
    (
        "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg "
        "stdatomic stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time "
        "uchar wchar wctype aio cpio devctl dirent dlfcn endian fcntl fmtmsg fnmatch ftw getopt glob grp iconv "
        "langinfo libgen libintl monetary mqueue ndbm netdb nl_types poll pthread pwd regex sched search semaphore "
        "spawn strings stropts syslog tar termios trace ulimit unistd utime utmpx wordexp alloca byteswap elf "
        "error features link malloc memory values"
    ).split()
)


def api_name(name: str) -> str:
    """Return the name of a model's C functions and header, a C identifier: resnet50-v1 -> resnet50_v1.

    It begins with model_ if the name begins with a digit or with a prefix of mavcg's own names, or if header or
    functions would have names of the C library.
    """
    return f"model_{c_identifier(name, 'model')}" if renaming_reason(name) else c_identifier(name, "model")


def renaming_reason(name: str) -> str:
    """Return why a model's functions and header have names that begin with model_; "" if they do not."""
    word = c_identifier(name, "model")
    if word[0].isdigit():
        return "a name in C cannot begin with a digit"
    if word == "mavcg" or word.startswith(("mavcg_", "MAVCG_")):
        return "names that begin with mavcg are mavcg's own"
    if word in _SHORT_OF_LIBC:
        return f"{word}_create is a function of the C library"
    return f"{word}.h is a header of the C library" if word in _HEADERS else ""


def constants_symbol(program: Program) -> str:
    """Return the hidden symbol of a model's packed constants."""
    return f"mavcg_constants_{api_name(program.name)}"


def network_symbol(name: str) -> str:
    """Return the hidden symbol of a network's engine in an application's library."""
    return f"mavcg_network_{api_name(name)}"

"""Parses, verifies and prints LLVM IR with llvmlite in a child process, because LLVM may abort the process."""

from pathlib import Path

REFUSED = 3


def llvm_name() -> str:
    """Return the name of the LLVM that llvmlite contains, such as "LLVM 22.1"."""
    import llvmlite.binding as llvm

    return "LLVM " + ".".join(str(part) for part in llvm.llvm_version_info[:2])


def main(source: str, output: str) -> int:
    """Write the module in the file `source` as text to the file `output`.

    Returns: the exit status: 0 when the text is written, REFUSED when stdout holds LLVM's reason.
    """
    import llvmlite.binding as llvm

    data = Path(source).read_bytes()
    try:
        if data.startswith((b"BC\xc0\xde", b"\xde\xc0\x17\x0b")):
            module = llvm.parse_bitcode(data)
        else:
            module = llvm.parse_assembly(data.decode("utf-8"))
        module.verify()
        text = str(module)
        # A zero byte in the target triple or data layout truncates the text, which then does not parse.
        llvm.parse_assembly(text)
    except UnicodeDecodeError as error:
        print(f"byte {error.start} is not UTF-8")
        return REFUSED
    except RuntimeError as error:
        print(" ".join(str(error).split()))
        return REFUSED
    Path(output).write_text(text, encoding="utf-8")
    return 0

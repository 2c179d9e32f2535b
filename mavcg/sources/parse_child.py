"""Reads LLVM IR with llvmlite, verifies it, and writes it as text: in a child, for LLVM may end the process."""

from pathlib import Path

REFUSED = 3


def llvm_name() -> str:
    """The LLVM that reads, such as "LLVM 22.1"."""
    import llvmlite.binding as llvm

    return "LLVM " + ".".join(str(part) for part in llvm.llvm_version_info[:2])


def main(given: str, output: str) -> int:
    """Exit status: 0 when `output` holds the module as text, REFUSED when stdout holds LLVM's reason."""
    import llvmlite.binding as llvm

    data = Path(given).read_bytes()
    try:
        if data.startswith((b"BC\xc0\xde", b"\xde\xc0\x17\x0b")):
            module = llvm.parse_bitcode(data)
        else:
            module = llvm.parse_assembly(data.decode("utf-8"))
        module.verify()
    except UnicodeDecodeError as error:
        print(f"byte {error.start} is not UTF-8")
        return REFUSED
    except RuntimeError as error:
        print(" ".join(str(error).split()))
        return REFUSED
    Path(output).write_text(str(module), encoding="utf-8")
    return 0

"""Names of the instruction set extensions of AArch64, and the bits by which a kernel says that a machine has them."""

from collections.abc import Iterable

from mavcg.errors import MavcgError

# LLVM's name of an extension -> its bits of AT_HWCAP, and of AT_HWCAP2. An extension that covers several bits needs all
# of them: sha2 is SHA1 and SHA2, sha3 is SHA3 and SHA512, aes is AES and PMULL, pauth is PACA and PACG.
# Source: Linux arch/arm64/include/uapi/asm/hwcap.h; LLVM AArch64Features.td.
HWCAP_BITS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "aes": ((3, 4), ()),
    "altnzcv": ((), (7,)),
    "bf16": ((), (14,)),
    "complxnum": ((14,), ()),
    "crc": ((7,), ()),
    "cssc": ((), (34,)),
    "dotprod": ((20,), ()),
    "flagm": ((27,), ()),
    "fp16fml": ((23,), ()),
    "fptoint": ((), (8,)),
    "fullfp16": ((9, 10), ()),
    "hbc": ((), (44,)),
    "i8mm": ((), (13,)),
    "jsconv": ((13,), ()),
    "lse": ((8,), ()),
    "mops": ((), (43,)),
    "mte": ((), (18,)),
    "pauth": ((30, 31), ()),
    "rand": ((), (16,)),
    "rcpc": ((15,), ()),
    "rcpc-immo": ((26,), ()),
    "rdm": ((12,), ()),
    "sb": ((29,), ()),
    "sha2": ((5, 6), ()),
    "sha3": ((17, 21), ()),
    "sm4": ((18, 19), ()),
    "sve": ((22,), ()),
    "sve-bitperm": ((), (4,)),
    "sve2": ((), (1,)),
    "wfxt": ((), (31,)),
}
# Extensions that change what an instruction of the base guarantees: no instruction shows that code depends on them.
# With lse2, a plain `ldp` is a 16-byte atomic load.
INVISIBLE = ("lse2",)


def hwcap_words(extensions: Iterable[str]) -> tuple[int, int, int, int]:
    """Return the bits that these extensions need: AT_HWCAP, then AT_HWCAP2, each as its low and its high 32 bits.

    Raises: MavcgError for an extension that no bit shows.
    """
    words = [0, 0]
    for name in extensions:
        if name not in HWCAP_BITS:
            raise MavcgError(f"extension {name}: has no bit in AT_HWCAP or AT_HWCAP2; leave it out of the code")
        for number, bits in enumerate(HWCAP_BITS[name]):
            words[number] |= sum(1 << bit for bit in bits)
    return (words[0] & 0xFFFFFFFF, words[0] >> 32, words[1] & 0xFFFFFFFF, words[1] >> 32)

"""On-chip memory is a ring: buffers are found until they are overwritten, as late as possible; pinned ones never."""

import random

import pytest

from mavcg.accelerators.codegen.onchip import DoesNotFitError, OnChipMemory


def test_memory_agrees_with_a_plain_list_of_words() -> None:
    numbers = random.Random(1)
    memory, words = OnChipMemory("features", 32), list[int | None]([None] * 32)
    pinned: list[tuple[int, int]] = []
    found = failed = 0
    for key in range(2000):
        if pinned and numbers.random() < 0.55:
            memory.release(pinned.pop(numbers.randrange(len(pinned)))[0])
        wanted = numbers.randrange(max(0, key - 12), key + 1)
        if wanted in words:
            address, size = words.index(wanted), words.count(wanted)
            assert memory.find(wanted) == address
            pinned.append((address, size))
            found += 1
        else:
            assert memory.find(wanted) is None
        size = numbers.randrange(1, 9)
        try:
            address = memory.allocate(size, key)
        except DoesNotFitError:
            assert memory.pinned_words() == sum(size for _, size in set(pinned))
            failed += 1
            continue
        assert all(address + size <= first or first + length <= address for first, length in pinned)
        for overwritten in set(words[address : address + size]) - {None}:
            words = [None if word == overwritten else word for word in words]
        words[address : address + size] = [key] * size
        pinned.append((address, size))
    assert found > 100
    assert failed > 10


def test_forgotten_buffers_are_not_found() -> None:
    memory = OnChipMemory("weights", 8)
    kept, lost = memory.allocate(2, "kept"), memory.allocate(2, "lost")
    memory.release(lost)

    memory.forget()

    assert memory.find("kept") == kept
    assert memory.find("lost") is None
    with pytest.raises(DoesNotFitError, match="weights: 9 of 8 words beside 2 in use"):
        memory.allocate(9, None)

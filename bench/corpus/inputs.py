"""The inputs of the corpus' programs: sound, speech, a picture and a text, from a seed, the same on every machine."""

import wave
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 48000


def write_inputs(folder: Path) -> None:
    """Write the inputs into a new folder.

    They are sound.wav, sound.raw (48 kHz, mono, 16 bits), floats.raw (the same as f32), speech.raw (8 kHz), image.ppm
    (256 x 192, 8 bits), frames.y4m (176 x 144, 8 frames) and text (1 MB).
    """
    rng = np.random.default_rng(44)
    folder.mkdir(parents=True)
    sound = _sound(rng, RATE * 3, RATE)
    (folder / "sound.raw").write_bytes(sound.tobytes())
    (folder / "floats.raw").write_bytes((sound / 2.0**15).astype("<f4").tobytes())
    with wave.open(str(folder / "sound.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(sound.tobytes())
    (folder / "speech.raw").write_bytes(_sound(rng, 8000 * 6, 8000).tobytes())
    (folder / "image.ppm").write_bytes(b"P6\n256 192\n255\n" + _picture(rng, 192, 256, 0.0).tobytes())
    (folder / "frames.y4m").write_bytes(_frames(rng))
    (folder / "text").write_bytes(_text(rng, 1_000_000))


def _sound(rng: np.random.Generator, length: int, rate: int) -> NDArray[Any]:
    """Five tones that glide and swell, and noise: little-endian 16-bit samples."""
    time = np.arange(length) / rate
    tones = sum(
        np.sin(2 * np.pi * start * (1 + 0.2 * np.sin(time * swing)) * time) * np.abs(np.sin(time * swing * 2)) / order
        for order, (start, swing) in enumerate(zip(rng.uniform(90, 900, 5), rng.uniform(0.3, 3, 5), strict=True), 1)
    )
    noisy = tones * 6000 + rng.normal(0, 250, length)
    samples: NDArray[Any] = np.clip(np.rint(noisy), -32768, 32767).astype("<i2")
    return samples


def _picture(rng: np.random.Generator, height: int, width: int, moved: float) -> NDArray[Any]:
    """Smooth gradients, edges and noise: (height, width, 3) bytes."""
    y, x = np.mgrid[0:height, 0:width]
    smooth = np.stack([np.sin((x + moved) / 17 + c) + np.cos(y / (11 + c)) for c in range(3)], axis=-1)
    edges = ((x + moved).astype(int) // 24 + y // 16) % 2
    noisy = 128 + 40 * smooth + 30 * edges[..., None] + rng.normal(0, 4, (height, width, 3))
    pixels: NDArray[Any] = np.clip(noisy, 0, 255).astype(np.uint8)
    return pixels


def _frames(rng: np.random.Generator) -> bytes:
    """Eight 4:2:0 frames of a picture that moves to the left, as YUV4MPEG2."""
    parts = [b"YUV4MPEG2 W176 H144 F25:1 Ip A1:1 C420jpeg\n"]
    for number in range(8):
        planes = _picture(rng, 144, 176, 3.0 * number)
        parts += [b"FRAME\n", planes[..., 0].tobytes(), *(planes[::2, ::2, c].tobytes() for c in (1, 2))]
    return b"".join(parts)


def _text(rng: np.random.Generator, length: int) -> bytes:
    """Words of a small vocabulary with a skewed frequency, in lines."""
    words = [bytes(rng.integers(97, 123, rng.integers(2, 10)).astype("u1")) for _ in range(2000)]
    order = (rng.zipf(1.3, length // 5) - 1) % len(words)
    return b" ".join(words[index] + (b"\n" if index % 11 == 0 else b"") for index in order)[:length]

"""Mutations of messages between processes: their table of rows as a tree, with sizes and digest made right again."""

import hashlib
import json
import random
import struct

from fuzz.mutation import Mutate, mutator
from fuzz.mutation.trees import changed_tree

_DIGEST_BYTES = 32
_SIZE = struct.Struct("<Q")


def message_mutator(mark: bytes, prefix: int = 0) -> Mutate:
    """Return a mutator of messages. mark: their first bytes. prefix: bytes before it, which are changed as bytes."""

    def change(source: random.Random, data: bytes) -> bytes:
        head, message = data[:prefix], data[prefix:]
        if prefix and source.random() < 0.03:
            return bytes([source.randrange(256)]) + data[1:]
        body = message[len(mark) + _DIGEST_BYTES :]
        if not message.startswith(mark) or len(body) < _SIZE.size:
            raise ValueError("not a message")
        (size,) = _SIZE.unpack_from(body)
        document = json.loads(body[_SIZE.size : _SIZE.size + size])
        blobs = body[_SIZE.size + size :]
        if blobs and source.random() < 0.1:
            at = source.randrange(len(blobs))
            blobs = blobs[:at] + bytes([source.randrange(256)]) + blobs[at + 1 :]
        else:
            words = [row[1] for row in document.get("rows", ()) if row[0] in ("object", "enum", "function")]
            document = changed_tree(source, document, [str(word) for word in words])
        text = json.dumps(document).encode()
        content = _SIZE.pack(len(text)) + text + blobs
        return head + mark + hashlib.sha256(content).digest() + content

    def safe(source: random.Random, data: bytes) -> bytes:
        try:
            return change(source, data)
        except (TypeError, AttributeError, IndexError, KeyError, RecursionError) as error:  # an odd tree
            raise ValueError(str(error)) from None

    return mutator(safe)

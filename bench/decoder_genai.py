"""The decoder of examples/decoder as a folder of onnxruntime-genai: its model file and genai_config.json.

onnxruntime-genai gives a model attention_mask, of which nodes compute the lengths that GroupQueryAttention reads, as in
the models of its builder; and it decides how long caches are. The folder has no words: texts are numbers of tokens.
Source: onnxruntime-genai 0.18, models/builders/base.py (the nodes and the file's keys).
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from examples.decoder.make_decoder import Decoder


def genai_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with attention_mask in place of lengths, and free lengths of caches."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    info = helper.make_tensor_value_info
    mask = info("attention_mask", TensorProto.INT64, (1, "total"))
    others = [value for value in graph.input if value.name not in ("seqlens_k", "total_sequence_length")]
    for value in (*others, *graph.output):
        if value.name.startswith(("past_key_values.", "present.")):
            value.type.tensor_type.shape.dim[2].dim_param = "room" if value.name.startswith("past") else "next_room"
    del graph.input[:]
    graph.input.extend([others[0], mask, *others[1:]])
    one = numpy_helper.from_array(np.array([1], np.int64), "one")
    graph.initializer.append(one)
    node = helper.make_node
    nodes = [
        node("ReduceSum", ["attention_mask", "one"], ["counted"], keepdims=0),
        node("Sub", ["counted", "one"], ["before_last"]),
        node("Cast", ["before_last"], ["seqlens_k"], to=TensorProto.INT32),
        node("Shape", ["attention_mask"], ["mask_shape"], start=1, end=2),
        node("Squeeze", ["mask_shape"], ["mask_length"]),
        node("Cast", ["mask_length"], ["total_sequence_length"], to=TensorProto.INT32),
    ]
    own = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *own])
    return made


def genai_config(decoder: Decoder) -> dict[str, Any]:
    """Return what genai_config.json says of a decoder."""
    size = decoder.size
    names = {f"{part}_names": f"{{}}.%d.{part.split('_')[1]}" for part in ("past_key", "past_value")}
    past = {name: text.format("past_key_values") for name, text in names.items()}
    present = {name.replace("past", "present"): text.format("present") for name, text in names.items()}
    return {
        "model": {
            "type": "llama",
            "bos_token_id": 1,
            "eos_token_id": size.words - 1,
            "pad_token_id": 0,
            "context_length": decoder.context,
            "vocab_size": size.words,
            "decoder": {
                "session_options": {"provider_options": []},
                "filename": "model.onnx",
                "head_size": size.head,
                "hidden_size": size.hidden,
                "num_attention_heads": size.heads,
                "num_hidden_layers": size.layers,
                "num_key_value_heads": size.kept_heads,
                "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **past},
                "outputs": {"logits": "logits", **present},
            },
        },
        "search": {
            "do_sample": False,
            "max_length": decoder.context,
            "min_length": decoder.context,
            "past_present_share_buffer": True,
        },
    }


def write_genai(decoder: Decoder, model: onnx.ModelProto, folder: Path) -> Path:
    """Write a folder. model: of the decoder. Returns the folder."""
    folder.mkdir()
    onnx.save(genai_model(model), folder / "model.onnx")
    (folder / "genai_config.json").write_text(json.dumps(genai_config(decoder), indent=1) + "\n")
    return folder

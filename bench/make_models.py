"""Writes large models for bench/run.py: make_models.py FOLDER

    chain.onnx          10,000 nodes, no weights
    chain_1g.onnx       the same with 1 GiB of weights inside the file
    decoder_16k.onnx    a decoder of 16,000 nodes with symbolic batch and seq
    irregular_16k.onnx  16,000 nodes of which no two stretches are alike: nothing folds
"""
import pathlib
import random
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def external(tensor, length):
    """Marks a tensor's bytes as lying in a file that is not there."""
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "none"), ("offset", "0"), ("length", str(length))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return tensor


def chain(nodes, inside):
    """MatMul, Relu, Add, Reshape over one activation, each MatMul with its own weight; with `inside`
    the weights' bytes lie in the file, and a table fills it to 1 GiB."""
    width = 256
    each = width * width * 4
    weights, graph_nodes = [], []
    name = "x"
    for i in range(nodes // 4):
        weight = helper.make_tensor(f"w{i}", TensorProto.FLOAT, [width, width], b"\1" * each, raw=True)
        weights.append(weight if inside else external(weight, each))
        graph_nodes += [helper.make_node("MatMul", [name, f"w{i}"], [f"m{i}"], name=f"/l{i}/MatMul"),
                        helper.make_node("Relu", [f"m{i}"], [f"r{i}"], name=f"/l{i}/Relu"),
                        helper.make_node("Add", [f"r{i}", name], [f"a{i}"], name=f"/l{i}/Add"),
                        helper.make_node("Reshape", [f"a{i}", "shape"], [f"o{i}"], name=f"/l{i}/Reshape")]
        name = f"o{i}"
    weights.append(numpy_helper.from_array(np.array([-1, width], dtype=np.int64), "shape"))
    if inside:
        rest = (1 << 30) - len(weights) * each
        weights.append(helper.make_tensor("table", TensorProto.FLOAT, [rest // 4], b"\1" * rest, raw=True))
    graph = helper.make_graph(graph_nodes, "chain", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def decoder(target):
    heads, size, hidden = 8, 64, 512
    nodes, weights = [], []

    def weight(name, dims):
        size = 2 * int(np.prod(dims))
        weights.append(external(helper.make_tensor(name, TensorProto.FLOAT16, dims, b"\0" * size, raw=True), size))
        return name

    for name, value in (("zero", [0]), ("one", [1]), ("heads", [heads]), ("size", [size]), ("minus", [-1])):
        weights.append(numpy_helper.from_array(np.array(value, dtype=np.int64), name))
    x, layer = "x", 0
    while len(nodes) < target:
        p = f"/layers.{layer}"

        def node(op, inputs, suffix, **attributes):
            out = f"{p}/{suffix}"
            nodes.append(helper.make_node(op, inputs, [out], name=f"{out}/{op}", **attributes))
            return out

        norm = node("LayerNormalization", [x, weight(f"{p}/n", [hidden])], "norm")
        shape = node("Shape", [norm], "shape")
        batch = node("Slice", [shape, "zero", "one"], "batch")
        target_shape = node("Concat", [batch, "minus", "heads", "size"], "target", axis=0)
        parts = []
        for part in "qkv":
            m = node("MatMul", [norm, weight(f"{p}/w{part}", [hidden, hidden])], part)
            r = node("Reshape", [m, target_shape], f"{part}_r")
            parts.append(node("Transpose", [r], f"{part}_t", perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]))
        scores = node("MatMul", parts[:2], "scores")
        probabilities = node("Softmax", [scores], "softmax", axis=-1)
        mixed = node("MatMul", [probabilities, parts[2]], "mixed")
        back = node("Transpose", [mixed], "back", perm=[0, 2, 1, 3])
        flat_shape = node("Concat", [batch, "minus", "flat"], "flat_shape", axis=0)
        flat = node("Reshape", [back, flat_shape], "flat_out")
        out = node("MatMul", [flat, weight(f"{p}/wo", [hidden, hidden])], "proj")
        x2 = node("Add", [x, out], "res1")
        up = node("MatMul", [x2, weight(f"{p}/wu", [hidden, 4 * hidden])], "up")
        act = node("Gelu", [up], "act")
        down = node("MatMul", [act, weight(f"{p}/wd", [4 * hidden, hidden])], "down")
        x = node("Add", [x2, down], "res2")
        layer += 1
    weights.append(numpy_helper.from_array(np.array([hidden], dtype=np.int64), "flat"))
    graph = helper.make_graph(nodes, "decoder", [helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["batch", "seq", hidden])],
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT16, ["batch", "seq", hidden])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def irregular(target):
    random.seed(7)
    hidden, names, nodes = 512, ["x"], []
    weights = [external(helper.make_tensor(name, TensorProto.FLOAT16, dims, b"\0" * 2 * int(np.prod(dims)), raw=True), 2 * int(np.prod(dims)))
               for name, dims in (("matrix", [hidden, hidden]), ("scale", [hidden]))]
    second = {"MatMul": lambda: ["matrix"], "LayerNormalization": lambda: ["scale"],
              "Add": lambda: [random.choice(names[-6:])], "Mul": lambda: [random.choice(names[-6:])]}
    while len(nodes) < target:
        op = random.choice(["MatMul", "Add", "Add", "Mul", "Relu", "Sigmoid", "Tanh", "Erf", "LayerNormalization", "Softmax"])
        first = names[-1] if random.random() < 0.6 else random.choice(names[-6:])
        nodes.append(helper.make_node(op, [first] + second.get(op, list)(), [f"v{len(nodes)}"], name=f"/{op}_{len(nodes)}"))
        names.append(f"v{len(nodes) - 1}")
    graph = helper.make_graph(nodes, "irregular", [helper.make_tensor_value_info("x", TensorProto.FLOAT16, ["batch", "seq", hidden])],
                              [helper.make_tensor_value_info(names[-1], TensorProto.FLOAT16, ["batch", "seq", hidden])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in (("chain", chain(10000, False)), ("chain_1g", chain(10000, True)), ("decoder_16k", decoder(16000)),
                        ("irregular_16k", irregular(16000))):
        (folder / f"{name}.onnx").write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()

"""Writes PREFIX.empty.onnx, PREFIX.one_op.onnx, PREFIX.unknown_op.onnx."""
import sys

import onnx
from onnx import TensorProto, helper


def write(name, nodes, last):
    tensors = [helper.make_tensor_value_info(value, TensorProto.FLOAT, [1024, 1024]) for value in ("x", last)]
    graph = helper.make_graph(nodes, name, tensors[:1], tensors[1:])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("some.domain", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), f"{sys.argv[1]}.{name}.onnx")


write("empty", [], "x")
write("one_op", [helper.make_node("Relu", ["x"], ["y"])], "y")
write("unknown_op", [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["b"]), helper.make_node("Exp", ["b"], ["c"]),
                     helper.make_node("Mystery", ["c"], ["y"], domain="some.domain")], "y")

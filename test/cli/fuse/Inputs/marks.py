"""Checks a model whose weights are elsewhere, and prints the marks of its nodes of one type."""
import sys

import onnx

model = onnx.load(sys.argv[1], load_external_data=False)
graph = model.graph
# The checker opens external files: what lies in them becomes an input.
for tensor in [t for t in graph.initializer if t.external_data]:
    graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    graph.initializer.remove(tensor)
onnx.checker.check_model(model)
for node in graph.node:
    if node.op_type == sys.argv[2]:
        print(node.name, *sorted(f"{p.key}={p.value}" for p in node.metadata_props if p.key.startswith("roofcast")))

"""The ONNX backend node tests, as onnx.backend.test generates them, run through `roofcast analyze`.

    conformance.py ROOFCAST [--only NAME] [--list]

As each model is: output shapes stripped from the file; inputs of at most 16 elements that are integer
or bool, or are not the first input, become initializers. Output dtype and dims are compared with the
recorded outputs. A case is right, wrong (a dtype or dim differs), an error (the tool refused the
model or crashed), or open (the tool says it does not know a dim, and why). Exits 1 if any is wrong
or an error, or if fewer than the floors below are right.
"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

FLOOR_SINGLE, FLOOR_EXPANDED = 1360, 470


def dtype_name(array):
    if array.dtype.kind in "OUS":
        return "string"
    return str(array.dtype)


def describe(value):
    """(dtype, shape) of a recorded output; None for what has no tensor type."""
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, np.ndarray) or np.isscalar(value):
        array = np.asarray(value)
        return dtype_name(array), list(array.shape)
    return None


def strip(value_info):
    """Takes the shape, keeps the element type."""
    kind = value_info.type.WhichOneof("value")
    if kind == "tensor_type":
        value_info.type.tensor_type.ClearField("shape")
    elif kind == "optional_type" and value_info.type.optional_type.elem_type.WhichOneof("value") == "tensor_type":
        value_info.type.optional_type.elem_type.tensor_type.ClearField("shape")


def prepare(case):
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    inputs, outputs = case.data_sets[0]
    kept = []
    for position, (info, value) in enumerate(zip(list(model.graph.input), inputs)):
        tensor = value
        if isinstance(tensor, (list, dict)) or tensor is None:
            kept.append(info)
            continue
        if not isinstance(tensor, onnx.TensorProto):
            array = np.asarray(tensor)
            tensor = None if array.dtype.kind in "OUS" else numpy_helper.from_array(array, info.name)
            size, integer = array.size, array.dtype.kind in "iub"
        else:
            size = int(np.prod(list(tensor.dims))) if tensor.dims else 1
            integer = tensor.data_type in (TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
                                           TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64,
                                           TensorProto.BOOL)
        if tensor is not None and size <= 16 and (integer or position > 0) and \
                info.type.WhichOneof("value") == "tensor_type":
            tensor.name = info.name
            model.graph.initializer.append(tensor)
        else:
            kept.append(info)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    for info in model.graph.output:
        strip(info)
    del model.graph.value_info[:]
    return model, [describe(v) for v in outputs]


def judge(tool, path, model, expected):
    run = subprocess.run([tool, "analyze", str(path), "--tensors", "--format", "json", "--model", "ideal", "-q"],
                         capture_output=True, text=True)
    if run.returncode != 0:
        return "error", run.stderr.strip() or f"exit {run.returncode}"
    result = json.loads(run.stdout)
    verdict, why = "right", ""
    for info, want in zip(model.graph.output, expected):
        if want is None or info.name == "":
            continue
        have = result["tensors"].get(info.name)
        if have is None:
            return "open", f"{info.name}: type not known"
        inner = have["dtype"]
        if inner.startswith("optional("):
            inner = inner[9:-1]
        if inner != want[0]:
            return "wrong", f"{info.name}: {have['dtype']}, recorded {want[0]}"
        assumed = result["coverage"]["assumed"]
        if "shape" not in have:
            verdict, why = "open", f"{info.name}: shape not known"
        elif have["shape"] != want[1]:
            # A size that only data decides is at its bound: right if the tool says so.
            if any("node" in a for a in assumed):
                verdict, why = "open", f"{info.name}: data-dependent, {have['shape']} at most, recorded {want[1]}"
            else:
                return "wrong", f"{info.name}: {have['shape']}, recorded {want[1]}"
    return verdict, why


def main():
    tool = sys.argv[1]
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases
    cases = [c for c in collect_testcases(None) if only in c.name and c.data_sets]
    tally = {False: {}, True: {}}
    lines = []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = []
        for case in cases:
            try:
                model, expected = prepare(case)
            except Exception as fault:  # a case that cannot be made into a file is not the tool's
                lines.append(("skipped", case.name, str(fault)))
                continue
            path = pathlib.Path(folder) / f"{case.name}.onnx"
            path.write_bytes(model.SerializeToString())
            jobs.append((case, pool.submit(judge, tool, path, model, expected)))
        for case, job in jobs:
            verdict, why = job.result()
            count = tally["_expanded" in case.name]
            count[verdict] = count.get(verdict, 0) + 1
            if verdict != "right":
                lines.append((verdict, case.name, why))
    for verdict, name, why in sorted(lines):
        print(f"{verdict:8}{name}: {why[:220]}")
    for expanded, title in ((False, "single-op"), (True, "expanded")):
        print(f"{title}: " + ", ".join(f"{n} {v}" for v, n in sorted(tally[expanded].items())))
    bad = sum(t.get("wrong", 0) + t.get("error", 0) for t in tally.values())
    short = not only and (tally[False].get("right", 0) < FLOOR_SINGLE or tally[True].get("right", 0) < FLOOR_EXPANDED)
    return 1 if bad or short else 0


if __name__ == "__main__":
    sys.exit(main())

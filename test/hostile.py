"""Hand-made hostile models: each must end in exit 2 with a diagnostic, or in an analysis (exit 0),
within 2 seconds and 1 GiB.

    hostile.py ROOFCAST [--no-memory-limit]
"""
import pathlib
import resource
import subprocess
import sys
import tempfile
import time


def varint(value):
    out = b""
    value &= (1 << 64) - 1
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, payload):
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    if isinstance(payload, str):
        payload = payload.encode()
    return varint(number << 3 | 2) + varint(len(payload)) + payload


# The messages of onnx.proto, field numbers by hand so that the file may be as wrong as it likes.
def node(op, inputs, outputs, attributes=b"", name="", domain=""):
    return (b"".join(field(1, i) for i in inputs) + b"".join(field(2, o) for o in outputs) +
            (field(3, name) if name else b"") + field(4, op) + attributes + (field(7, domain) if domain else b""))


def graph_attribute(name, graph):
    return field(5, field(1, name) + field(20, 5) + field(6, graph))


def ints_attribute(name, values):
    return field(5, field(1, name) + field(20, 7) + b"".join(field(8, v) for v in values))


def tensor_type(dims, dtype=1):
    shape = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in dims)
    return field(1, field(1, dtype) + field(2, shape))


def value(name, dims, dtype=1):
    return field(1, name) + field(2, tensor_type(dims, dtype))


def initializer(name, dims, dtype=1, raw=b""):
    return b"".join(field(1, d) for d in dims) + field(2, dtype) + field(8, name) + (field(9, raw) if raw else b"")


def graph(nodes, inputs=(), outputs=(), initializers=()):
    return (b"".join(field(1, n) for n in nodes) + field(2, "g") + b"".join(field(5, i) for i in initializers) +
            b"".join(field(11, i) for i in inputs) + b"".join(field(12, o) for o in outputs))


def model(g, functions=()):
    return field(1, 10) + field(7, g) + field(8, field(2, 20)) + field(8, field(1, "f") + field(2, 1)) + b"".join(field(25, f) for f in functions)


def function(name, nodes, inputs=("x",), outputs=("y",)):
    return (field(1, name) + b"".join(field(4, i) for i in inputs) + b"".join(field(5, o) for o in outputs) +
            b"".join(field(7, n) for n in nodes) + field(9, field(2, 20)) + field(10, "f"))


def deep_graphs(depth):
    inner = graph([node("Identity", ["x"], ["y"])], outputs=[value("y", [1])])
    for i in range(depth):
        inner = graph([node("If", ["x"], ["y"], graph_attribute("then_branch", inner), name=f"if{i}")], outputs=[value("y", [1])])
    return model(graph([node("If", ["x"], ["y"], graph_attribute("then_branch", inner), name="outer")], [value("x", [1], 9)]))


def doubling_functions(count):
    functions = [function("f0", [node("Relu", ["x"], ["y"])])]
    for i in range(1, count):
        functions.append(function(f"f{i}", [node(f"f{i-1}", ["x"], ["t"], domain="f"), node(f"f{i-1}", ["t"], ["y"], domain="f")]))
    return model(graph([node(f"f{count-1}", ["x"], ["y"], domain="f")], [value("x", [1])], [value("y", [1])]), functions)


def simple(nodes, inputs, **more):
    return model(graph(nodes, inputs, [value("y", [])], **more))


big = 1 << 62
CASES = {
    "empty": b"",
    "text": b"this is no model\n" * 100,
    "deep_subgraphs": deep_graphs(5000),
    "deep_functions": model(graph([node("f4999", ["x"], ["y"], domain="f")], [value("x", [1])]),
                            [function(f"f{i}", [node(f"f{i-1}" if i else "Relu", ["x"], ["y"], domain="f" if i else "")]) for i in range(5000)]),
    "doubling_functions": doubling_functions(60),
    "recursive_function": model(graph([node("f0", ["x"], ["y"], domain="f")], [value("x", [1])]),
                                [function("f0", [node("f0", ["x"], ["y"], domain="f")])]),
    "mutually_recursive": model(graph([node("f0", ["x"], ["y"], domain="f")], [value("x", [1])]),
                                [function("f0", [node("f1", ["x"], ["y"], domain="f")]), function("f1", [node("f0", ["x"], ["y"], domain="f")])]),
    "cycle": simple([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], [value("x", [1])]),
    "self_cycle": simple([node("Relu", ["y"], ["y"])], [value("x", [1])]),
    "huge_dims": simple([node("Mul", ["x", "x"], ["y"])], [value("x", [big - 1, big - 1])]),
    "dim_2_62": simple([node("MatMul", ["x", "x"], ["y"])], [value("x", [big, big])]),
    "negative_dim": simple([node("Relu", ["x"], ["y"])], [value("x", [-3, 4])]),
    "huge_initializer": simple([node("Add", ["x", "w"], ["y"])], [value("x", [1])], initializers=[initializer("w", [big, 4])]),
    "length_past_end": field(1, 10) + b"\x3a\xff\xff\xff\x7f" + b"abc",
    "length_overflow": field(1, 10) + b"\x3a" + varint((1 << 64) - 1) + b"abc",
    "raw_too_short": simple([node("Reshape", ["x", "s"], ["y"])], [value("x", [4])], initializers=[initializer("s", [2], 7, b"\0" * 8)]),
    "duplicate_values": simple([node("Relu", ["x"], ["y"]), node("Exp", ["x"], ["y"])], [value("x", [1])]),
    "duplicate_inputs": simple([node("Relu", ["x"], ["y"])], [value("x", [1]), value("x", [2])]),
    "missing_input": simple([node("Relu", ["nowhere"], ["y"])], [value("x", [1])]),
    "no_inputs": simple([node("MatMul", [], ["y"])], [value("x", [1])]),
    "wrong_rank_conv": simple([node("Conv", ["x", "x"], ["y"])], [value("x", [1, 2])]),
    "rank_mismatch": simple([node("MatMul", ["x", "z"], ["y"])], [value("x", [2, 3]), value("z", [4, 5])]),
    "bad_perm": simple([node("Transpose", ["x"], ["y"], ints_attribute("perm", [0, 0]))], [value("x", [2, 3])]),
    "bad_axis": simple([node("Concat", ["x", "x"], ["y"], field(5, field(1, "axis") + field(20, 2) + field(3, 99)))], [value("x", [2, 3])]),
    "conv_zero_stride": simple([node("Conv", ["x", "w"], ["y"], ints_attribute("strides", [0, 0]))], [value("x", [1, 1, 5, 5]), value("w", [1, 1, 3, 3])]),
    "string_math": simple([node("MatMul", ["x", "x"], ["y"])], [value("x", [2, 2], 8)]),
    "odd_dtype": simple([node("Relu", ["x"], ["y"])], [value("x", [2, 2], 99)]),
    "many_dims": simple([node("Relu", ["x"], ["y"])], [value("x", [2] * 5000)]),
    "expression_bomb": simple([node("Relu", ["x"], ["y"])], [value("x", ["(" * 20000 + "a" + ")" * 20000])]),
    "long_expression": simple([node("Relu", ["x"], ["y"])], [value("x", ["+".join(f"a{i}*b{i}" for i in range(3000))])]),
    "range_bomb": simple([node("Range", ["a", "b", "c"], ["y"])], [], initializers=[initializer("a", [], 7, b"\0" * 8), initializer("b", [], 7, b"\xff" * 7 + b"\x3f"), initializer("c", [], 7, b"\1" + b"\0" * 7)]),
    "loop_without_body": simple([node("Loop", ["", "", "x"], ["y"])], [value("x", [1])]),
    "if_without_branches": simple([node("If", ["x"], ["y"])], [value("x", [1], 9)]),
    "unknown_op": simple([node("Frobnicate", ["x"], ["y"], domain="my.domain"), node("Relu", ["x"], ["z"])], [value("x", [4])]),
}
MUST_FAIL = {"empty", "text", "deep_subgraphs", "deep_functions", "recursive_function", "mutually_recursive", "cycle", "self_cycle",
             "length_past_end", "length_overflow", "duplicate_values", "duplicate_inputs", "missing_input", "rank_mismatch", "bad_perm", "bad_axis",
             "doubling_functions", "conv_zero_stride"}


def main():
    tool = sys.argv[1]
    # AddressSanitizer reserves address space far beyond what it uses.
    limit_memory = "--no-memory-limit" not in sys.argv
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, data in CASES.items():
            path = pathlib.Path(folder) / f"{name}.onnx"
            path.write_bytes(data)
            start = time.monotonic()
            try:
                run = subprocess.run([tool, "analyze", str(path), "--format", "json"], capture_output=True, timeout=20,
                                     preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))) if limit_memory else None)
                code, text = run.returncode, run.stderr.decode(errors="replace").strip()
            except subprocess.TimeoutExpired:
                code, text = "timeout", ""
            seconds = time.monotonic() - start
            fine = code == 2 if name in MUST_FAIL else code in (0, 2)
            if code == 2:
                fine &= text.splitlines()[-1].startswith("roofcast: error[")
            if seconds > 2 and limit_memory:
                fine = False
            if not fine:
                failed += 1
            print(f"{'ok  ' if fine else 'FAIL'} {name}: exit {code}, {seconds:.2f} s  {text.splitlines()[-1][:140] if text else ''}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

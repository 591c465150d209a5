"""Compares `roofcast analyze` with recorded truths: dtype and dims of every tensor, matrix FLOPs,
parameters.

    truths.py ROOFCAST FOLDER...     folders of <name>.onnx, <name>.shapes.json, <name>.truth.json

Each case runs twice: its symbols bound by --set, and its inputs' dims by --shape. Exits 1 on any
difference that the model's row in `expected` below does not explain.
"""
import json
import pathlib
import re
import subprocess
import sys

# What a recorded run decided by its data: the branch that its If took.
decided = {
    "loop_decoder_ts15 b1_n3": ["--set", "/If=0"],
    "loop_decoder_ts15 b4_n10": ["--set", "/If=1"],
}


def analyze(tool, model, arguments):
    command = [tool, "analyze", str(model), "--hw", "h100-sxm", "--model", "ideal", "--tensors",
               "--format", "json", "-q", *arguments]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        return None, run.stderr.strip() or f"exit {run.returncode}"
    return json.loads(run.stdout), ""


def by_shape(inputs):
    return [f"{name}=" + ("x".join(map(str, dims)) or "scalar") for name, (_, dims) in inputs.items()
            if isinstance(dims, list)]


def by_symbol(graph_inputs, inputs):
    values = {}
    for name, (_, dims) in graph_inputs.items():
        if name not in inputs or not isinstance(dims, list):
            continue
        for axis, (symbol, size) in enumerate(zip(dims, inputs[name][1])):
            if isinstance(symbol, str) and re.fullmatch(r"[A-Za-z_]\w*", symbol):
                values[symbol] = size
            elif not isinstance(symbol, int) and symbol in (None, "", "?"):
                values[f"{name}.{axis}"] = size
    return [f"{symbol}={size}" for symbol, size in values.items()]


def value_arguments(name, truth, case):
    extra = decided.get(f"{name} {case['label']}", [])
    found = re.search(r"_n(\d+)$", case["label"])
    if found and "n" in truth.get("graph_inputs", {}):
        return ["--value", f"n={found.group(1)}", *extra]
    return extra


def same_shape(want, have):
    return have is not None and len(want) == len(have) and all(w == h for w, h in zip(want, have))


def compare(label, want, result, verbose):
    tensors = result["tensors"]
    right, wrong, open_ = 0, [], []
    for name, (dtype, dims) in want.items():
        have = tensors.get(name)
        if have is None:
            open_.append(f"{name}: no such tensor")
        elif not isinstance(dims, list):
            right += 1
        elif have["dtype"] != dtype and dtype is not None:
            wrong.append(f"{name}: {have['dtype']}, truth {dtype}")
        elif "shape" not in have:
            open_.append(f"{name}: shape unknown, truth {dims}")
        elif same_shape(dims, have["shape"]):
            right += 1
        else:
            wrong.append(f"{name}: {have['shape']}, truth {dims}")
    print(f"{'ok  ' if not wrong and not open_ else 'DIFF'} {label}: {right} of {len(want)} tensors right, "
          f"{len(wrong)} wrong, {len(open_)} open")
    for line in (wrong + open_)[:verbose]:
        print("      " + line)
    return len(wrong) + len(open_)


def main():
    tool, folders = sys.argv[1], [a for a in sys.argv[2:] if not a.startswith("-")]
    verbose = 5
    faults = 0
    for folder in map(pathlib.Path, folders):
        for shapes_file in sorted(folder.glob("*.shapes.json")):
            name = shapes_file.name.removesuffix(".shapes.json")
            model = folder / f"{name}.onnx"
            truth_file = folder / f"{name}.truth.json"
            shapes = json.loads(shapes_file.read_text())
            truth = json.loads(truth_file.read_text()) if truth_file.exists() else {}
            cases = {c["label"]: c for c in truth.get("cases", [])}
            if "cases" in shapes:  # the other form: inputs and tensors case by case
                listed = {str(i): c for i, c in enumerate(shapes["cases"])}
                cases = {label: {"label": label, "inputs": {n: (v["dtype"], v["shape"]) for n, v in c["inputs"].items()}}
                         for label, c in listed.items()}
                shapes = {label: c["tensors"] for label, c in listed.items()}
            for label, want in shapes.items():
                case = cases.get(label, {"label": label})
                inputs = case.get("inputs", {})
                ways = {}
                if inputs:
                    ways["--shape"] = [x for s in by_shape(inputs) for x in ("--shape", s)]
                    if truth:
                        symbols = by_symbol(truth["graph_inputs"], inputs)
                        ways["--set"] = ["--set", ",".join(symbols)] if symbols else []
                else:
                    ways[""] = []
                for way, arguments in ways.items():
                    result, fault = analyze(tool, model, arguments + value_arguments(name, truth, case))
                    title = f"{name} {label} {way}"
                    if result is None:
                        print(f"FAIL {title}: {fault}")
                        faults += 1
                        continue
                    faults += compare(title, want, result, verbose)
                    flops = case.get("flops_torch")
                    if flops:
                        have = result["totals"]["matrix_flops"]
                        ratio = have / flops
                        if abs(ratio - 1) > 1e-6:
                            print(f"      matrix_flops {have:.6g}, torch {flops:.6g}, ratio {ratio:.6f}")
                    for u in result["coverage"]["uncounted"]:
                        print(f"      uncounted {u['count']} x {u['op']} ({u['domain']}): {u['reason']}")
                    params = truth.get("params")
                    if params and way == "--shape":
                        have = result["model"]["parameters"]
                        if abs(have / params - 1) > 0.01:
                            print(f"      parameters {have}, torch {params}, ratio {have / params:.4f}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""Checks `roofcast fuse` on whole models against counts made from the files alone.

    fusion.py ROOFCAST FOLDER...     folders of <name>.onnx, <name>.shapes.json

Of each attention model there: every layer's attention is one group, from the scores' product to the
product with the values, and the bytes that a group saves are those of its intermediates by count.
Of each pair of a model and its file fused by ONNX Runtime: what its optimizer fused lies in one group, or
the plan says why not; the plans of both files end at the same time, no later than the fused file's own;
and by the ideal model within 10 % of that, attentions that the optimizer left as they were set aside.
Exits 1 on any difference.
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import onnx

HARDWARE = ["a100-sxm-80", "h100-sxm"]
TIME_MODELS = ["ideal", "kernel"]
# Model → symbols, the recorded case, layers, and what runs between its two products, all S×S.
ATTENTION = {
    "bert_base_ts17": ("batch=1,seq=128", "1_128", 12, ["Mul", "Add", "Softmax"]),
    "bert_base_int4": ("batch=1,seq=128", "1_128", 12, ["Mul", "Add", "Softmax"]),
    "gpt2_prefill": ("batch=2,seq=200", "b2_s200", 12, ["Mul", "Add", "Softmax"]),
    "vit_b_16": ("batch=1", "b1_224x224", 12, ["Softmax"]),
    "llama3_8b_prefill": ("batch=1,seq=512", "b1_s512", 32, ["Add", "Softmax", "IsNaN", "Where"]),
}
FUSED = {"bert_base_ts17": "bert_base_ort_fused", "gpt2_prefill": "gpt2_prefill_ort_fused"}
VIEWS = {"Reshape", "Unsqueeze", "Squeeze", "Flatten", "Identity"}
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "bool": 1}


def run(tool, *arguments):
    done = subprocess.run([tool, *map(str, arguments), "-q", "--format", "json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


class Graph:
    def __init__(self, path, shapes, symbols):
        self.model = onnx.load(path, load_external_data=False)
        self.nodes = self.model.graph.node
        self.shapes = dict(shapes)
        self.maker = {out: node for node in self.nodes for out in node.output}
        self.stored = {t.name: t for t in self.model.graph.initializer}
        for value in self.model.graph.input:
            kind = value.type.tensor_type
            dims = [d.dim_value or symbols[d.dim_param] for d in kind.shape.dim]
            self.shapes[value.name] = (onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name, dims)
        self.outputs = {self.root(v.name) for v in self.model.graph.output}

    def dims(self, name):
        if name in self.shapes:
            return self.shapes[name][1]
        return list(self.stored[name].dims) if name in self.stored else None

    def bytes(self, name):
        if name in self.stored:
            kind, dims = onnx.helper.tensor_dtype_to_np_dtype(self.stored[name].data_type).name, self.stored[name].dims
        else:
            kind, dims = self.shapes[name]
        total = BYTES[kind]
        for d in dims:
            total *= d
        return total

    def root(self, name):
        while name in self.maker and (self.maker[name].op_type in VIEWS or self.moves_nothing(self.maker[name])):
            name = self.maker[name].input[0]
        return name

    def moves_nothing(self, node):
        """A transpose of dims of one."""
        if node.op_type != "Transpose":
            return False
        perm = next(a.ints for a in node.attribute if a.name == "perm")
        dims = self.dims(node.input[0])
        if dims is None:  # an input of a view
            out = self.dims(node.output[0])
            dims = [0] * len(out)
            for to, source in enumerate(perm):
                dims[source] = out[to]
        return [p for p in perm if dims[p] != 1] == sorted(p for p in perm if dims[p] != 1)

    def reads(self, node):
        """Bytes by operand, views looked through; shapes and axes are known before the model runs."""
        names = [n for n in node.input if n]
        if node.op_type in ("Expand", "Slice", "ReduceMean"):
            names = names[:1]
        found = []
        for name in dict.fromkeys(names):
            size = self.bytes(node.output[0]) if node.op_type in ("Slice", "Gather") and name == node.input[0] else self.bytes(name)
            found.append((self.root(name), size))
        return found

    def saved(self, names):
        """By the law of the issue: b(1+c) for what stays inside, b·c for what is written all the same, and
        what comes from outside is read once."""
        inside = [n for n in self.nodes if n.name in names]
        assert len(inside) == len(names), "names of nodes"
        made = {out for n in inside for out in n.output}
        readers, escaping = collections.defaultdict(list), set(self.outputs)
        for node in self.nodes:
            if node.op_type in VIEWS or self.moves_nothing(node) or node.op_type == "Shape":
                continue
            if node.name in names:
                for value, size in self.reads(node):
                    readers[value].append(size)
            else:
                escaping.update(self.root(n) for n in node.input if n)
        total = scores = 0
        for value, sizes in readers.items():
            if value not in made:
                saved = sum(sizes) - max(sizes)
            else:
                saved = sum(sizes) + (0 if value in escaping else self.bytes(value))
                dims = self.dims(value)
                if len(dims) > 2 and dims[-1] == dims[-2] and dims[-3] > 1:
                    scores += saved
            total += saved
        return total, scores


def attentions(graph):
    """Nodes between each pair of products that a Softmax stands between: from the maker of the scores on."""
    readers = collections.defaultdict(list)
    for node in graph.nodes:
        for name in node.input:
            readers[name].append(node)
    for softmax in (n for n in graph.nodes if n.op_type == "Softmax"):
        found, up, down = [softmax], softmax, [softmax]
        while up.op_type != "MatMul":
            up = next(graph.maker[n] for n in up.input if n in graph.maker and graph.dims(n) == graph.dims(softmax.input[0]))
            found.append(up)
        while down:
            node = down.pop()
            for reader in readers[node.output[0]]:
                if reader not in found:
                    found.append(reader)
                    if reader.op_type != "MatMul":
                        down.append(reader)
        yield found


def plan_with_marks(tool, path, symbols, hardware, time_model):
    """The plan, and by node what was written into its metadata_props."""
    with tempfile.NamedTemporaryFile(suffix=".onnx") as copy:
        plan = run(tool, "fuse", path, "--set", symbols, "--hw", hardware, "--model", time_model, "--annotate", copy.name)
        annotated = onnx.load(copy.name, load_external_data=False)
    return plan, {n.name: {p.key: p.value for p in n.metadata_props} for n in annotated.graph.node}


def read(path):
    """The graph at its recorded case."""
    symbols, case, _, _ = ATTENTION[path.stem]
    values = {s: int(v) for s, v in (pair.split("=") for pair in symbols.split(","))}
    return Graph(path, json.loads(path.with_suffix(".shapes.json").read_text())[case], values)


def check_attention(tool, path, faults):
    name = path.stem
    symbols, _, layers, between = ATTENTION[name]
    graph = read(path)
    for hardware in HARDWARE:
        for time_model in TIME_MODELS:
            plan, marks = plan_with_marks(tool, path, symbols, hardware, time_model)
            check_whole(graph, plan, marks, f"{name} on {hardware}, {time_model}", layers, between, faults)


def check_whole(graph, plan, marks, name, layers, between, faults):
    whole = 0
    for nodes in attentions(graph):
        ops = collections.Counter(n.op_type for n in nodes)
        wanted = collections.Counter(["MatMul", "MatMul", *between])
        groups = {marks[n.name].get("roofcast.fusion_group") for n in nodes}
        labels = {marks[n.name].get("roofcast.fusion") for n in nodes}
        if ops == wanted and len(groups) == 1 and labels == {"flash attention"}:
            whole += 1
    if whole != layers:
        faults.append(f"{name}: {whole} of {layers} attentions whole")
    for group in (c for c in plan["candidates"] if c.get("label") == "flash attention"):
        total, scores = graph.saved(set(group["nodes"]))
        if abs(total - group["bytes_saved"]) > 1e-6 * total:
            faults.append(f"{name}: a group saves {group['bytes_saved']:.0f} bytes, by count {total:.0f}")
        print(f"{name:44} {group['count']:3} × {len(group['ops']):2} ops   saved {group['bytes_saved'] / 1e6:8.3f} MB, "
              f"by count {total / 1e6:8.3f} MB, of it S×S {scores / 1e6:8.3f} MB")


def replaced(graph, fused):
    """What ONNX Runtime's optimizer replaced by each fused op that normalizes or activates: its type, and the
    nodes of the exported file. Weights keep their names, and lead from one file to the other."""
    readers = collections.defaultdict(list)
    for node in graph.nodes:
        for name in node.input:
            readers[graph.root(name)].append(node)
    for op in fused.graph.node:
        if op.domain != "com.microsoft" or op.op_type == "Attention":
            continue
        found = [n for name in op.input if name in graph.stored for n in readers[name] if n.op_type in ("LayerNormalization", "Add", "Gemm")]
        if op.op_type.endswith("LayerNormalization"):
            norm = next(n for n in found if n.op_type == "LayerNormalization")
            found = [n for n in found if n.op_type != "Gemm"] + [norm]
            sums = [norm]
            while sums:
                above = graph.maker.get(graph.root(sums.pop().input[0]))
                if above is not None and above.op_type == "Add":
                    found.append(above)
                    sums += [above] if op.op_type.startswith("Embed") else []
        else:
            ends = list(found)
            while ends:
                for reader in readers[graph.root(ends.pop().output[0])]:
                    if reader.op_type not in ("MatMul", "Gemm") and reader not in found:
                        found.append(reader)
                        ends.append(reader)
        yield op.op_type, {n.name for n in found if n.op_type not in VIEWS}


def check_fused(tool, path, fused, faults):
    graph, symbols = read(path), ATTENTION[path.stem][0]
    theirs_fused = onnx.load(fused, load_external_data=False)
    runtime = list(replaced(graph, theirs_fused))
    has_attention = any(n.op_type == "Attention" for n in theirs_fused.graph.node)
    for hardware in HARDWARE:
        for time_model in TIME_MODELS:
            common = ["--set", symbols, "--hw", hardware, "--model", time_model]
            plan, marks = plan_with_marks(tool, path, symbols, hardware, time_model)
            ours, theirs = plan["model_time_after"], run(tool, "fuse", fused, *common)["model_time_after"]
            analysis = run(tool, "analyze", fused, *common)["totals"]["time"]
            name = f"{path.stem} on {hardware}, {time_model}"
            why = {str(c["id"]): c["why"] for c in plan["candidates"]}
            whole, apart = collections.Counter(), collections.Counter()
            for op, nodes in runtime:
                groups = {marks[n].get("roofcast.fusion_group") for n in nodes}
                if len(groups) == 1 and None not in groups:
                    whole[op] += 1
                # Rows that a tile does not hold are normalized apart, the sum goes to the product before: it is quicker, as
                # the comparison of the two plans below says.
                elif op == "SkipLayerNormalization" and all("tile too large" in why[g] for g in groups if g):
                    apart[op] += 1
                else:
                    faults.append(f"{name}: {op} of {', '.join(nodes)} lies in groups {groups}")
            said = [f"{count} {op}" for op, count in whole.items()] + [f"{count} {op} in two (tile too large)" for op, count in apart.items()]
            print(f"{name:44} planned {ours * 1e6:7.1f} µs, the fused file {analysis * 1e6:7.1f} µs, planned {theirs * 1e6:7.1f} µs; {', '.join(said)}")
            # What the plan has and the fused file lacks.
            beyond = 0 if has_attention else sum((c["time_before"] - c["time_after"]) * c["count"] for c in plan["candidates"]
                                                 if c.get("label") == "flash attention")
            if time_model == "ideal" and not 0.9 < (ours + beyond) / analysis < 1.02:
                faults.append(f"{name}: {ours + beyond:.3g} s where ONNX Runtime's fused file takes {analysis:.3g} s")
            if abs(ours / theirs - 1) > 0.05 or ours > analysis * 1.02:
                faults.append(f"{name}: {ours:.3g} s planned, {theirs:.3g} s where ONNX Runtime fused first")


def main():
    tool, faults = sys.argv[1], []
    for folder in map(pathlib.Path, sys.argv[2:]):
        for path in sorted(folder.glob("*.onnx")):
            if path.stem in ATTENTION:
                check_attention(tool, path, faults)
            if path.stem in FUSED:
                check_fused(tool, path, path.with_stem(FUSED[path.stem]), faults)
    print("\n".join(faults) or "as counted")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

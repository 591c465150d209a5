"""Compares `roofcast diagnose` with the `exact` figures beside recorded traces.

    trace_truths.py ROOFCAST FOLDER      of <name>.json.gz with <name>.hta.json, *.sqlite with *.truth.json
"""
import json
import pathlib
import subprocess
import sys


def run(tool, *traces):
    process = subprocess.run([tool, "diagnose", *map(str, traces), "--format", "json", "-q"], capture_output=True, text=True)
    if process.returncode not in (0, 1):
        return None, process.stderr.strip()
    return json.loads(process.stdout), ""


def us(seconds):
    return seconds * 1e6


def compare(title, exact, result):
    faults = []

    def check(what, have, want):
        if abs(have - want) > max(1e-6 * abs(want), 0.0011):
            faults.append(f"{what}: {have:.6f}, exact {want:.6f}")

    devices = {d["device"]: d for rank in result["ranks"] for d in rank["devices"]}
    for want in exact["devices"]:
        have = devices.get(want["device"])
        if have is None:
            faults.append(f"device {want['device']} is missing")
            continue
        at = f"device {want['device']} "
        check(at + "events", have["events"], want["gpu_events"])
        check(at + "span", us(have["span"]), want["span_us"])
        check(at + "busy", us(have["busy"]), want["busy_us"])
        check(at + "idle", us(have["idle"]["total"]), want["idle_us"])
        check(at + "compute", us(have["compute"]), want["compute_us"])
        check(at + "comm", us(have["comm"]["total"]), want["comm_us"])
        check(at + "exposed", us(have["comm"]["exposed"]), want["comm_exposed_us"])
        check(at + "copies", us(have["copies"]["total"]), want["memcpy_us"])
        if "memcpy_exposed_us" in want:
            check(at + "copies exposed", us(have["copies"]["exposed"]), want["memcpy_exposed_us"])
        for kind, value in want["device_idle_us"].items():
            check(at + kind, us(have["idle"][kind]), value)
        if "classes" in want:
            for name, value in want["classes"].items():
                check(at + "class " + name, us(have["classes"].get(name, 0)), value["time_us"])
            check(at + "all classes", sum(map(us, have["classes"].values())), sum(v["time_us"] for v in want["classes"].values()))
        if "launch" in want:
            check(at + "matched", have["launch"]["matched"], want["launch"]["matched"])
            check(at + "shorter", have["launch"]["shorter_than_their_launch"], want["launch"]["shorter_than_their_launch"])
            if "delay_max_us" in want["launch"]:
                check(at + "delay max", us(have["launch"].get("delay_max", 0)), want["launch"]["delay_max_us"])
        for kernel in want.get("top_kernels", []):
            mine = [k for k in have["kernels"] if k["name"].startswith(kernel["name"].rstrip("…")) and k["count"] == kernel["count"]]
            if not any(abs(us(k["time"]) - kernel["time_us"]) < 0.01 for k in mine):
                faults.append(f"kernel {kernel['name'][:50]}: {kernel['time_us']} is not found")
        if "launch_matched" in want:
            check(at + "matched", have["launch"]["matched"], want["launch_matched"])
    steps = {}
    for s in result["steps"]:
        steps.setdefault(s["name"], []).append(s)
    for want in exact.get("steps") or []:
        have = steps.get(want["name"])
        if not have:
            faults.append(f"step {want['name']} is missing")
            continue
        for key in ("span", "busy", "compute", "comm", "comm_exposed"):
            check(f"step {want['name']} {key}", us(have[0][key]), want[key + "_us"])
    print(f"{'ok  ' if not faults else 'DIFF'} {title}: verdict {result.get('verdict')}" + (f" ({result['where']})" if "where" in result else ""))
    for fault in faults[:8]:
        print("      " + fault)
    return len(faults)


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    faults = 0
    for truth_file in sorted([*folder.rglob("*.hta.json"), *folder.rglob("*.truth.json")]):
        name = truth_file.name.replace(".hta.json", "").replace(".truth.json", "")
        truth = json.loads(truth_file.read_text())
        exact = truth.get("exact")
        if isinstance(exact, dict) and "devices" not in exact:  # several ranks
            traces = sorted(truth_file.parent.glob("*.json.gz"))
            for trace in traces:
                part = exact.get(trace.name.replace(".json.gz", ""))
                result, fault = run(tool, trace)
                if part and result:
                    faults += compare(trace.name, part, result)
            continue
        if exact is None:
            continue
        trace = next((p for p in (truth_file.parent / f"{name}{s}" for s in (".json.gz", ".json", ".sqlite")) if p.exists()), None)
        if trace is None:
            continue
        result, fault = run(tool, trace)
        if result is None:
            print(f"FAIL {name}: {fault}")
            faults += 1
            continue
        faults += compare(name, exact, result)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

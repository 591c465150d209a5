"""Times of `roofcast analyze` and `roofcast fuse` as ratios: run.py ROOFCAST FOLDER (made by make_models.py)

Prints, for each model, the median of 15 runs and peak memory; the kernel model's time over the ideal
one's; for weights inside the file the ratio to the same graph without them; for fuse what it takes more
than analyze.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import time


def run(command):
    times, memory = [], 0
    for _ in range(15):
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(process.pid, 0)
        times.append(time.perf_counter() - start)
        memory = max(memory, usage.ru_maxrss)
    return statistics.median(times), memory


def main():
    tool, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    base = None
    for path in sorted(folder.glob("*.onnx")):
        seconds, memory = run([tool, "analyze", str(path), "-q"])
        line = f"{path.name:28} {seconds * 1e3:7.1f} ms  {memory / 1024:6.1f} MiB"
        if path.stem == "chain":
            base = seconds
        if path.stem == "chain_1g" and base:
            line += f"  {seconds / base:.2f} x without weights"
        ideal, _ = run([tool, "analyze", str(path), "-q", "--model", "ideal"])
        line += f"  {seconds / ideal:.2f} x ideal model"
        fused, _ = run([tool, "fuse", str(path), "-q"])
        print(f"{line}  fuse {(fused - seconds) * 1e3:+7.1f} ms, {fused / seconds:.2f} x analyze")


if __name__ == "__main__":
    main()

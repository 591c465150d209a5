"""Opens a report in headless Chromium: no console errors, and every point of the roofline stands where
its figures say.

    page.py ROOFCAST MODEL [ARGUMENTS...]
"""
import html.parser
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.svg, self.circles, self.rows = {}, [], 0

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        if tag == "svg" and a.get("id") == "roofline":
            self.svg = a
        elif tag == "circle":
            self.circles.append(a)
        elif tag == "tr" and a.get("id", "").startswith("group-"):
            self.rows += 1


def scale(svg, axis):
    low, high = map(float, svg[f"data-{axis}-domain"].split())
    begin, end = map(float, svg[f"data-{axis}-range"].split())
    return lambda v: begin + (end - begin) * math.log(v / low) / math.log(high / low)


def main():
    tool, model, *arguments = sys.argv[1:]
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is not installed: the page is not tested")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.html"
        run = subprocess.run([tool, "analyze", model, "-q", "--format", "json", "--html", str(report), *arguments],
                             capture_output=True, text=True, check=True)
        analysis = json.loads(run.stdout)
        browser = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
                                  f"--user-data-dir={folder}/profile", "--virtual-time-budget=5000", "--dump-dom", report.as_uri()],
                                 capture_output=True, text=True, timeout=120)
    faults = [line for line in browser.stderr.splitlines() if "CONSOLE" in line]
    page = Page()
    page.feed(browser.stdout)
    if not page.circles:
        faults.append("no points are drawn")
    x, y = (scale(page.svg, axis) for axis in "xy") if page.svg else (None, None)
    # Distinct points of the JSON: intensity and rate of each row with FLOPs, bytes and time.
    wanted = set()
    for row in analysis["ops"]:
        bytes_ = row.get("bytes_read", 0) + row.get("bytes_written", 0)
        if row.get("flops", 0) > 0 and bytes_ > 0 and row.get("time", 0) > 0:
            wanted.add((f"{row['flops'] / bytes_:.9g}", f"{row['flops'] / row['time']:.9g}"))
    have = set()
    for c in page.circles:
        intensity, rate = float(c["data-intensity"]), float(c["data-rate"])
        have.add((f"{intensity:.9g}", f"{rate:.9g}"))
        if abs(float(c["cx"]) - x(intensity)) > 0.01 or abs(float(c["cy"]) - y(rate)) > 0.01:
            faults.append(f"a point is misplaced: {c}")
    close = lambda a, b: all(math.isclose(float(p), float(q), rel_tol=1e-6) for p, q in zip(a, b))
    missing = [w for w in wanted if w not in have and not any(close(w, h) for h in have)]
    faults += [f"no point for intensity, rate {w}" for w in missing[:5]]
    print(f"{pathlib.Path(model).name}: {len(page.circles)} points, {page.rows} rows, {len(faults)} faults")
    for fault in faults[:10]:
        print("  " + fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Forbids includes that go against the layer order of docs/architecture.md."""
import pathlib
import re
import sys

ORDER = [["support"], ["ir"], ["ops"], ["frontend", "passes", "hw"], ["time"], ["search"],
         ["trace", "measure"], ["api"]]
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}
PUBLIC_ONLY = {"report": {"report", "support"}}  # views read result structs and units, nothing else

root = pathlib.Path(sys.argv[1])
wrong = []
count = 0
for path in sorted((root / "lib").rglob("*.[ch]*")):
    if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
        continue
    layer = path.relative_to(root / "lib").parts[0]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#include "([^"/]+)/', line)
        if not found or found[1] == "roofcast":
            continue
        count += 1
        target = found[1]
        if layer in PUBLIC_ONLY:
            fine = target in PUBLIC_ONLY[layer]
        elif layer not in RANK or target not in RANK:
            fine = False
        else:
            fine = target == layer or RANK[target] < RANK[layer]
        if not fine:
            wrong.append(f"{path.relative_to(root)}:{number}: {layer} includes {target}")
for path in sorted((root / "include").rglob("*.h")):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#include "([^"]+)"', line)
        if found and not found[1].startswith("roofcast/"):
            wrong.append(f"{path.relative_to(root)}:{number}: a public header includes {found[1]}")
print("\n".join(wrong) or f"{count} includes, all in order")
sys.exit(bool(wrong))

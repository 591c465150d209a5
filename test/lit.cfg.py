"""Golden tests: each .rc and .test file runs its RUN lines and checks the text with FileCheck."""
import os
import shutil
import sys

import lit.formats

config.name = "roofcast"
config.test_format = lit.formats.ShTest(False)
config.suffixes = [".rc", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
binaries = os.environ["ROOFCAST_BIN"]
config.test_exec_root = os.path.join(os.path.dirname(binaries), "test-output")

# LLVM's FileCheck where it is installed, else its PyPI port; golden files use what both understand.
here = os.path.dirname(sys.executable)
filecheck = next((p for p in [os.path.join(here, "filecheck"), shutil.which("FileCheck"),
                              shutil.which("filecheck")] if p and os.path.exists(p)), None)
if filecheck is None:
    lit_config.fatal("FileCheck not found: tools/setup.sh installs it")
config.substitutions += [
    ("FileCheck", filecheck),
    (r"\broofcast-opt\b", os.path.join(binaries, "roofcast-opt")),
    (r"\broofcast\b(?![-/.\[:])", os.path.join(binaries, "roofcast")),
    ("%python", sys.executable),
    ("%models", os.path.join(os.path.dirname(__file__), "..", "models")),
]
config.available_features.update(os.environ.get("ROOFCAST_FEATURES", "").split())
config.environment["NO_COLOR"] = "1"

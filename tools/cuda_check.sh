#!/bin/sh
# On a machine with a CUDA device: builds the CUDA preset, checks each kernel against its definition,
# calibrates, validates shipped models, and leaves JSON in a folder. Made to fit in eight minutes.
#
#   sh tools/cuda_check.sh [HARDWARE] [FOLDER]        h200-sxm and build/cuda-check if left out
set -eu
cd "$(dirname "$0")/.."
hardware="${1:-h200-sxm}"
folder="${2:-build/cuda-check}"
mkdir -p "$folder"
jobs="$(nproc)"

# Only the architecture that is here is compiled: the others are what CI compiles.
capability="$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ')"
if [ -z "$capability" ]; then
  echo "cuda_check: no CUDA device (nvidia-smi lists none)" >&2
  exit 3
fi
nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv >"$folder/device.csv"

step() {
  started="$(date +%s)"
  echo "== $1"
  shift
  status=0
  "$@" || status=$?
  echo "   $(($(date +%s) - started)) s, exit $status"
  [ "$status" -eq 0 ] || failed="${failed:-}x"
}

step configure cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES="$capability-real"
step build cmake --build --preset cuda -j "$jobs" --target roofcast-tool roofcast_tests
bin=build/cuda/bin
step "kernels against their definitions" "$bin/roofcast_tests" "[cuda]"
step calibrate "$bin/roofcast" calibrate --on cuda --hw "$hardware" -o "$folder/calibrated.toml"
"$bin/roofcast" hw "$folder/calibrated.toml" --format json -o "$folder/calibrated.json" || true
validate() {
  step "validate $1" "$bin/roofcast" validate "models/$1.onnx" --set "$2" --on cuda --hw "$folder/calibrated.toml" \
    --select top:40 --format json -o "$folder/$1.json"
}
validate resnet50 batch=8
validate vit_b_16_functions batch=4
validate gpt2_decode batch=1,past_len=512
ls -l "$folder"
[ -z "${failed:-}" ]

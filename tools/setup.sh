#!/bin/sh
# All set-up on a bare Debian 12, as root.
#
#   sh tools/setup.sh run     installs what is needed, builds, analyses a shipped model
#   sh tools/setup.sh test    installs what is needed, builds, runs all tests
#
# Packages that are there already are not installed again; other systems need the same ones.
set -eu
cd "$(dirname "$0")/.."

build_packages="g++ cmake ninja-build ccache python3 python3-venv protobuf-compiler libprotobuf-dev
  libcli11-dev libfmt-dev libtomlplusplus-dev nlohmann-json3-dev libjs-d3 zlib1g-dev libsqlite3-dev"
# oneDNN and Eigen: the CPU backend of `validate` and `calibrate`.
test_packages="catch2 libeigen3-dev libdnnl-dev"

install_packages() {
  missing=""
  for package in "$@"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
  done
  if [ -n "$missing" ]; then
    echo "installing:$missing"
    apt-get update -q
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
  fi
}

# ONNX's message definitions come with its Python package; tests need lit and its friends too.
install_python() {
  [ -x build/python/bin/python ] || python3 -m venv build/python
  build/python/bin/python -c "
import importlib.util, sys
sys.exit(any(importlib.util.find_spec(name) is None for name in sys.argv[1:]))" "$1" $2 ||
    build/python/bin/pip install --quiet --disable-pip-version-check $3
}

# The CUDA backend is compiled, not run, where nvcc 13 is installed.
compile_cuda() {
  nvcc="$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")"
  if "$nvcc" --version 2>/dev/null | grep -q "release 13"; then
    cmake --preset cuda -DROOFCAST_TESTS=OFF
    cmake --build --preset cuda --target roofcast_cuda
  else
    echo "skipped: the CUDA backend is not compiled, no nvcc 13 found"
  fi
}

mkdir -p build
case "${1:-}" in
run)
  # shellcheck disable=SC2086
  install_packages $build_packages
  install_python onnx "" "onnx"
  cmake --preset release -DROOFCAST_TESTS=OFF
  cmake --build --preset release
  build/release/bin/roofcast analyze models/resnet50.onnx --set batch=8 --hw h100-sxm
  ;;
test)
  # shellcheck disable=SC2086
  install_packages $build_packages $test_packages
  install_python onnx "numpy lit filecheck" "onnx numpy lit filecheck"
  cmake --preset dev
  cmake --build --preset dev
  cmake --preset asan
  cmake --build --preset asan
  compile_cuda
  ctest --preset asan --no-tests=error
  ctest --preset dev --no-tests=error
  ;;
*)
  echo "usage: sh tools/setup.sh run|test" >&2
  exit 2
  ;;
esac

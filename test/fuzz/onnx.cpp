// Damaged model files end in a diagnostic or in an analysis, never in a crash or a hang.
#include "roofcast/analyze.h"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <unistd.h>

using namespace roofcast;

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Scratch {
public:
  Scratch() : path_("/tmp/roofcast-fuzz-" + std::to_string(getpid()) + ".onnx") {}
  ~Scratch() { std::remove(path_.c_str()); }
  // Loads and analyses these bytes; false if the outcome is none that a user may see.
  bool survives(const std::string& bytes, const Hardware& hardware) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const auto start = std::chrono::steady_clock::now();
    const Result<Model> model = load(path_, {});
    bool fine = true;
    if (!model) fine = model.error().exit_code() == 2;
    else if (const Result<Analysis> a = analyze(*model, hardware, {.tensors = true}); !a) fine = a.error().exit_code() == 2;
    return fine && std::chrono::steady_clock::now() - start < std::chrono::seconds(2);
  }

private:
  std::string path_;
};

const char* const models[] = {"loop_decoder_ts15", "vit_b_16_functions", "bert_base_int4"};

}  // namespace

TEST_CASE("models truncated at every 1/200") {
  const Result<Hardware> hardware = load_hardware("h100-sxm");
  REQUIRE(hardware);
  const Scratch scratch;
  for (const char* name : models) {
    const std::string bytes = read_file(std::string(ROOFCAST_SOURCE_DIR) + "/models/" + name + ".onnx");
    REQUIRE_FALSE(bytes.empty());
    for (size_t i = 0; i < 200; ++i)
      if (!scratch.survives(bytes.substr(0, bytes.size() * i / 200), *hardware)) FAIL(name << " cut at " << bytes.size() * i / 200);
  }
}

// ROOFCAST_FUZZ_FLIPS sets another number than the one that continuous integration has time for.
TEST_CASE("random byte flips") {
  const Result<Hardware> hardware = load_hardware("h100-sxm");
  REQUIRE(hardware);
  const char* wanted = std::getenv("ROOFCAST_FUZZ_FLIPS");
  const int flips = wanted ? std::atoi(wanted) : 2000;
  const Scratch scratch;
  std::mt19937 random(1);
  const std::string bytes = read_file(std::string(ROOFCAST_SOURCE_DIR) + "/models/loop_decoder_ts15.onnx");
  for (int i = 0; i < flips; ++i) {
    std::string damaged = bytes;
    const size_t count = 1 + random() % 3;
    for (size_t k = 0; k < count; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    if (!scratch.survives(damaged, *hardware)) {
      std::ofstream("/tmp/roofcast-fuzz-failure.onnx", std::ios::binary) << damaged;
      FAIL("flip " << i << "; the file is kept as /tmp/roofcast-fuzz-failure.onnx");
    }
  }
}

// Small traces as text, written to a scratch file and diagnosed.
#pragma once

#include "roofcast/diagnose.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <unistd.h>

namespace roofcast::test {

class ScratchFile {
public:
  ScratchFile(const std::string& bytes, const std::string& ending = ".json") : path_("/tmp/roofcast-trace-" + std::to_string(getpid()) + ending) {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  ~ScratchFile() { std::remove(path_.c_str()); }
  ScratchFile(const ScratchFile&) = delete;
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

inline Result<Diagnosis> diagnose_text(const std::string& json) {
  const ScratchFile file(json);
  return diagnose({file.path()}, {});
}

// One event; times in µs.
inline std::string event(const std::string& category, const std::string& name, double start, double duration, const std::string& args = "") {
  char times[96];
  std::snprintf(times, sizeof times, "\"ts\": %.3f, \"dur\": %.3f", start, duration);
  return "{\"ph\": \"X\", \"cat\": \"" + category + "\", \"name\": \"" + name + "\", \"pid\": 0, \"tid\": 7, " + times + ", \"args\": {" + args + "}}";
}
inline std::string kernel(const std::string& name, double start, double duration, int correlation = 0, int stream = 7) {
  return event("kernel", name, start, duration, "\"device\": 0, \"stream\": " + std::to_string(stream) + ", \"correlation\": " + std::to_string(correlation));
}
inline std::string launch(double start, double duration, int correlation, const std::string& name = "cudaLaunchKernel") {
  return event("cuda_runtime", name, start, duration, "\"correlation\": " + std::to_string(correlation));
}
inline std::string trace(const std::vector<std::string>& events, const std::string& more = "") {
  std::string out = "{\"schemaVersion\": 1, " + more + "\"traceEvents\": [\n";
  for (size_t i = 0; i < events.size(); ++i) out += (i ? ",\n" : "") + events[i];
  return out + "\n]}\n";
}

}  // namespace roofcast::test

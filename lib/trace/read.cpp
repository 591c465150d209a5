#include "trace/read.h"

#include "support/diagnostic.h"

#include <cstdio>
#include <memory>

namespace roofcast::trace {

Result<Timeline> read_trace(const std::string& path) {
  char head[16] = {};
  size_t got = 0;
  if (std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::fopen(path.c_str(), "rb"), &std::fclose}; file)
    got = std::fread(head, 1, sizeof head, file.get());
  const std::string_view bytes(head, got);
  if (bytes.starts_with("SQLite format 3")) return read_nsight(path);
  if (path.ends_with(".nsys-rep") || path.ends_with(".qdrep"))
    return error("trace-kind", "a report of Nsight Systems cannot be read itself", {.file = path}, "nsys export --type sqlite " + path);
  if (path.ends_with(".sqlite") && got > 0) return error("sqlite-schema", "is no SQLite database, or an encrypted one", {.file = path}, "nsys export --type sqlite");
  return read_json(path);
}

}  // namespace roofcast::trace

// Nsight Systems SQLite exports, 2020 to 2025. Tables are optional and columns are asked for by name:
// NVIDIA changes both between releases.
#include "trace/read.h"

#include "support/diagnostic.h"

#include <sqlite3.h>

#include <algorithm>
#include <memory>
#include <set>

namespace roofcast::trace {
namespace {

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
struct FinishStatement {
  void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
};

class Reader {
public:
  explicit Reader(const std::string& path) { t_.file = path; }

  Result<Timeline> run() {
    // Immutable: neither a write-ahead log beside it nor a read-only folder may matter.
    std::string uri = "file:";
    for (char c : t_.file) {
      constexpr char hex[] = "0123456789ABCDEF";
      if (c == '?' || c == '#' || c == '%') uri += '%', uri += hex[static_cast<unsigned char>(c) >> 4], uri += hex[c & 15];
      else uri += c;
    }
    sqlite3* raw = nullptr;
    const int opened = sqlite3_open_v2((uri + "?immutable=1").c_str(), &raw, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
    db_.reset(raw);
    if (opened != SQLITE_OK) return error("sqlite-schema", sqlite3_errmsg(raw), {.file = t_.file}, "export it again: nsys export --type sqlite");
    sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, 64 << 20);
    each("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')", [&](sqlite3_stmt* s) { tables_.insert(text(s, 0)); });
    if (fault_) return std::move(*fault_);
    const bool exported = tables_.contains("StringIds") || tables_.contains("META_DATA_EXPORT") || tables_.contains("EXPORT_META_DATA");
    if (!exported) return error("sqlite-schema", "is no export of Nsight Systems (no table StringIds)", {.file = t_.file}, "nsys export --type sqlite REPORT.nsys-rep");
    version();
    events("CUPTI_ACTIVITY_KIND_KERNEL", KernelClass::other, true);
    events("CUPTI_ACTIVITY_KIND_MEMCPY", KernelClass::memcpy, false);
    events("CUPTI_ACTIVITY_KIND_MEMSET", KernelClass::memset, false);
    events("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", KernelClass::graph, false);
    launches();
    steps();
    device_names();
    notes();
    if (fault_) return std::move(*fault_);
    return std::move(t_);
  }

private:
  static std::string text(sqlite3_stmt* s, int column) {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(s, column));
    return bytes ? std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(s, column))) : std::string();
  }
  // A number, or absent where the cell holds NULL or text that is none.
  static std::optional<int64_t> number(sqlite3_stmt* s, int column) {
    switch (sqlite3_column_type(s, column)) {
    case SQLITE_INTEGER: return sqlite3_column_int64(s, column);
    case SQLITE_FLOAT: {
      const double v = sqlite3_column_double(s, column);
      return v > -9e18 && v < 9e18 ? std::optional(static_cast<int64_t>(v)) : std::nullopt;
    }
    default: return std::nullopt;
    }
  }

  // Runs a query row by row; a fault ends the reading.
  template <class F> void each(const std::string& sql, F&& row) {
    if (fault_) return;
    sqlite3_stmt* raw = nullptr;
    int code = sqlite3_prepare_v2(db_.get(), sql.c_str(), -1, &raw, nullptr);
    const std::unique_ptr<sqlite3_stmt, FinishStatement> statement(raw);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
      code = sqlite3_step(raw);
      if (code == SQLITE_ROW) row(raw);
      else break;
    }
    if (code != SQLITE_DONE)
      fault_ = error("sqlite-schema", sqlite3_errmsg(db_.get()), {.file = t_.file}, "the database is damaged or locked; export it again");
  }

  std::set<std::string> columns(const std::string& table) {
    std::set<std::string> names;
    if (tables_.contains(table)) each("PRAGMA table_info(\"" + table + "\")", [&](sqlite3_stmt* s) { names.insert(text(s, 1)); });
    return names;
  }
  // A query for these columns; one that the table lacks reads as NULL. Empty: a required one is missing.
  std::string select(const std::string& table, const std::vector<std::string>& wanted, size_t required) {
    const std::set<std::string> have = columns(table);
    std::string sql = "SELECT ";
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (i) sql += ", ";
      if (have.contains(wanted[i])) sql += "\"" + wanted[i] + "\"";
      else if (i < required) {
        t_.warnings.push_back(warning("sqlite-schema", "table " + table + " lacks the column " + wanted[i] + " (schema " + (schema_.empty() ? "unknown" : schema_) + "); it is left out", {.file = t_.file}));
        return {};
      } else sql += "NULL";
    }
    return sql + " FROM \"" + table + "\"";
  }

  void version() {
    for (const char* table : {"META_DATA_EXPORT", "EXPORT_META_DATA"})
      if (tables_.contains(table))
        each(std::string("SELECT name, value FROM ") + table, [&](sqlite3_stmt* s) {
          if (text(s, 0) == "EXPORT_SCHEMA_VERSION") schema_ = text(s, 1);
        });
  }

  const std::string& string_of(int64_t id) {
    if (!strings_read_) {
      strings_read_ = true;
      if (tables_.contains("StringIds"))
        each("SELECT id, value FROM StringIds", [&](sqlite3_stmt* s) {
          if (const auto key = number(s, 0)) strings_[*key] = text(s, 1);
        });
    }
    static const std::string none;
    const auto at = strings_.find(id);
    return at == strings_.end() ? none : at->second;
  }

  void events(const std::string& table, KernelClass fixed, bool kernels) {
    if (!tables_.contains(table)) return;
    const std::string sql = select(table, {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "demangledName", "shortName", "copyKind", "bytes", "graphId"}, 2);
    if (sql.empty()) return;
    if (kernels) string_of(0);
    each(sql, [&](sqlite3_stmt* s) {
      ++t_.events_read;
      const auto start = number(s, 0), end = number(s, 1);
      if (!start || !end) {
        ++t_.losses.without_times;
        return;
      }
      if (*end < *start) {
        ++t_.losses.negative_durations;
        return;
      }
      DeviceEvent e;
      e.start = *start, e.duration = *end - *start;
      const int64_t device = number(s, 2).value_or(0);
      const auto process = number(s, 5);
      if (const auto id = number(s, 4); id && *id) e.join_key = JoinKey::correlation, e.join_id = static_cast<uint64_t>(*id);
      std::string name;
      if (kernels) {
        for (int column : {6, 7})
          if (name.empty())
            if (const auto id = number(s, column)) name = string_of(*id);
        if (name.empty()) name = "unknown kernel";
      } else if (fixed == KernelClass::memcpy) {
        static constexpr std::pair<const char*, CopyKind> kinds[] = {{"Memcpy", CopyKind::other}, {"Memcpy HtoD", CopyKind::h2d}, {"Memcpy DtoH", CopyKind::d2h},
            {"Memcpy HtoA", CopyKind::h2d}, {"Memcpy AtoH", CopyKind::d2h}, {"Memcpy AtoA", CopyKind::d2d}, {"Memcpy AtoD", CopyKind::d2d}, {"Memcpy DtoA", CopyKind::d2d},
            {"Memcpy DtoD", CopyKind::d2d}, {"Memcpy HtoH", CopyKind::other}, {"Memcpy PtoP", CopyKind::p2p}, {"Memcpy unified HtoD", CopyKind::h2d},
            {"Memcpy unified DtoH", CopyKind::d2h}, {"Memcpy unified DtoD", CopyKind::d2d}};
        const int64_t kind = std::clamp<int64_t>(number(s, 8).value_or(0), 0, std::size(kinds) - 1);
        name = kinds[kind].first, e.copy = kinds[kind].second;
      } else if (fixed == KernelClass::memset) {
        name = "Memset", e.copy = CopyKind::memset;
      } else {
        name = "CUDA graph";
      }
      e.name = t_.names.intern(name);
      e.kernel_class = kernels ? t_.names.class_of(e.name) : fixed;
      if (const auto bytes = number(s, 9); bytes && *bytes > 0) {
        e.payload = static_cast<uint32_t>(t_.payloads.size());
        t_.payloads.push_back({.bytes = static_cast<uint64_t>(*bytes)});
      }
      const size_t index = t_.device_index(device);
      e.track = t_.track_index(device, number(s, 3).value_or(0), process ? std::optional(static_cast<uint32_t>(static_cast<uint64_t>(*process) >> 24)) : std::nullopt);
      t_.devices[index].events.push_back(e);
    });
  }

  void launches() {
    const std::string table = "CUPTI_ACTIVITY_KIND_RUNTIME";
    if (!tables_.contains(table)) return;
    const std::string sql = select(table, {"start", "end", "correlationId", "globalTid"}, 3);
    if (sql.empty()) return;
    each(sql, [&](sqlite3_stmt* s) {
      const auto start = number(s, 0), end = number(s, 1), id = number(s, 2);
      if (!start || !id || *id == 0) return;
      Launch l;
      l.start = *start, l.duration = std::max<int64_t>(0, end.value_or(*start) - *start);
      l.id = static_cast<uint64_t>(*id);
      l.process = static_cast<uint32_t>(static_cast<uint64_t>(number(s, 3).value_or(0)) >> 24);
      t_.launches.push_back(l);
    });
  }

  // NVTX ranges that name a step, each as it was pushed.
  void steps() {
    // Some releases add a suffix: NVTX_EVENTS_V2.
    const auto table = std::find_if(tables_.begin(), tables_.end(), [](const std::string& name) { return name.starts_with("NVTX_EVENTS"); });
    if (table == tables_.end()) return;
    const std::string sql = select(*table, {"start", "end", "text", "textId", "eventType"}, 2);
    if (sql.empty()) return;
    each(sql, [&](sqlite3_stmt* s) {
      const auto start = number(s, 0), end = number(s, 1), type = number(s, 4);
      if (!start || !end || *end <= *start || (type && *type != 59 && *type != 60)) return;
      std::string name = text(s, 2);
      if (name.empty())
        if (const auto id = number(s, 3)) name = string_of(*id);
      std::string lower = name;
      for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      const bool is_step = lower.starts_with("profilerstep") || lower.starts_with("step") || lower.starts_with("iteration") || lower.starts_with("iter ");
      if (!is_step || t_.steps.size() > 100'000) return;
      t_.steps.push_back({std::move(name), *start, *end});
      t_.steps_from = "ranges";
    });
    std::sort(t_.steps.begin(), t_.steps.end(), [](const Mark& a, const Mark& b) { return a.start < b.start; });
  }

  void device_names() {
    if (!tables_.contains("TARGET_INFO_GPU")) return;
    std::map<int64_t, std::string> by_gpu;
    std::set<std::string> distinct;
    const std::string sql = select("TARGET_INFO_GPU", {"id", "name"}, 2);
    if (sql.empty()) return;
    each(sql, [&](sqlite3_stmt* s) {
      if (const auto id = number(s, 0)) by_gpu[*id] = text(s, 1), distinct.insert(text(s, 1));
    });
    std::map<int64_t, int64_t> gpu_of;  // by CUDA ordinal
    if (tables_.contains("TARGET_INFO_CUDA_DEVICE"))
      if (const std::string mapping = select("TARGET_INFO_CUDA_DEVICE", {"cudaId", "gpuId"}, 2); !mapping.empty())
        each(mapping, [&](sqlite3_stmt* s) {
          const auto cuda = number(s, 0), gpu = number(s, 1);
          if (cuda && gpu) gpu_of[*cuda] = *gpu;
        });
    // CUDA ordinals may be a selection of the machine's GPUs: without a mapping only one common name is sure.
    for (Device& d : t_.devices) {
      if (const auto at = gpu_of.find(d.id); at != gpu_of.end() && by_gpu.contains(at->second)) d.name = by_gpu[at->second];
      else if (distinct.size() == 1) d.name = *distinct.begin();
    }
  }

  void notes() {
    if (tables_.contains("DIAGNOSTIC_EVENT"))
      if (const std::string sql = select("DIAGNOSTIC_EVENT", {"text", "severity"}, 1); !sql.empty()) {
        size_t shown = 0;
        each(sql, [&](sqlite3_stmt* s) {
          const std::string note = text(s, 0);
          if (note.find("dropped") != note.npos && ++shown <= 3) t_.warnings.push_back(warning("trace-truncated", "the profiler says: " + note, {.file = t_.file}));
        });
      }
    std::set<uint32_t> ran, asked;
    for (const Track& track : t_.tracks)
      if (track.process) ran.insert(*track.process);
    for (const Launch& launch : t_.launches) asked.insert(launch.process);
    size_t silent = 0;
    for (uint32_t process : asked) silent += !ran.empty() && !ran.contains(process);
    if (silent)
      t_.warnings.push_back(warning("trace-kind", std::to_string(silent) + " processes make CUDA calls but have no device events in the capture", {.file = t_.file}, "record each rank's process"));
    if (t_.device_events() == 0)
      t_.warnings.push_back(warning("trace-kind", "no GPU activity in the capture" + std::string(t_.launches.empty() ? "" : ", though there are CUDA calls"), {.file = t_.file}, "record with --trace=cuda"));
    if (t_.losses.negative_durations || t_.losses.without_times)
      t_.warnings.push_back(warning("trace-truncated", std::to_string(t_.losses.negative_durations + t_.losses.without_times) + " events have no sound times and count nowhere", {.file = t_.file}));
  }

  Timeline t_;
  std::unique_ptr<sqlite3, CloseDatabase> db_;
  std::set<std::string> tables_;
  std::unordered_map<int64_t, std::string> strings_;
  bool strings_read_ = false;
  std::string schema_;
  std::optional<Diagnostic> fault_;
};

}  // namespace

Result<Timeline> read_nsight(const std::string& path) { return Reader(path).run(); }

}  // namespace roofcast::trace

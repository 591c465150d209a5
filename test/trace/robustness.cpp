// Traces that broke other tools (numbers as in the collection of public reports): what is readable is
// analysed, what was lost is said.
#include "support.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <sqlite3.h>
#include <zlib.h>

using namespace roofcast;
using namespace roofcast::test;

namespace {

const std::string gemm = kernel("sm80_gemm", 100, 50, 1), relu = kernel("relu_kernel", 200, 10, 2);

uint64_t events_of(const Result<Diagnosis>& d) {
  REQUIRE(d);
  uint64_t n = 0;
  for (const RankFigures& r : d->ranks)
    for (const DeviceFigures& v : r.devices) n += v.events;
  return n;
}
bool warns(const Result<Diagnosis>& d, const std::string& text) {
  return d && std::any_of(d->warnings.begin(), d->warnings.end(), [&](const Diagnostic& w) { return w.message.find(text) != std::string::npos; });
}
const DeviceFigures& device(const Result<Diagnosis>& d) { return d->ranks[0].devices[0]; }

}  // namespace

TEST_CASE("1: a quote missing before a key") {
  const auto d = diagnose_text(trace({gemm, "{\"ph\": \"X\", cat\": \"kernel\", \"ts\": 1}", relu}));
  CHECK(events_of(d) == 2);
  CHECK(warns(d, "1 events do not parse"));
}
TEST_CASE("2: unescaped quotes and newlines in a name") {
  const auto d = diagnose_text(trace({gemm, "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"f(\"a\": {\n 1}\", \"ts\": 1, \"dur\": 2}", relu}));
  CHECK(events_of(d) == 2);
}
TEST_CASE("3: single backslashes") { CHECK(events_of(diagnose_text(trace({kernel("torch\\cuda\\__init__.py", 1, 2), gemm}))) == 2); }
TEST_CASE("4: control characters and invalid UTF-8") { CHECK(events_of(diagnose_text(trace({kernel(std::string("k\x01\xff\xfe"), 1, 2), gemm}))) == 2); }
TEST_CASE("5: integers beyond int64") {
  CHECK(events_of(diagnose_text(trace({event("kernel", "ncclKernel", 1, 2, "\"device\": 0, \"stream\": 7, \"Comms Id\": 18446744073709551615123"), gemm}))) == 2);
}
TEST_CASE("6: negative times, and decimals exact to the ns") {
  const auto d = diagnose_text(trace({event("kernel", "a", -660, 100.001, "\"device\": 0"), "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"b\", \"pid\": 0, \"ts\": 1700000000123456.789, \"dur\": 0.001, \"args\": {\"device\": 1}}",
                                      "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"b\", \"pid\": 0, \"ts\": 1700000000123457.789, \"dur\": 0.002, \"args\": {\"device\": 1}}"}));
  REQUIRE(events_of(d) == 3);
  CHECK(device(d).busy.count() == 100'001);
  CHECK(d->ranks[0].devices[1].span.count() == 1'002);
}
TEST_CASE("9: the legacy autograd profiler") {
  const auto d = diagnose_text("[{\"name\": \"gemm\", \"ph\": \"X\", \"ts\": 1.5, \"dur\": 2, \"tid\": 0, \"pid\": \"CUDA functions\", \"args\": {}},"
                               "{\"name\": \"op\", \"ph\": \"X\", \"ts\": 1, \"dur\": 1, \"tid\": 0, \"pid\": \"CPU functions\", \"args\": {}}]");
  CHECK(events_of(d) == 1);
  CHECK(warns(d, "legacy autograd trace"));
}
TEST_CASE("10: JSON and gzip that end in the middle") {
  std::string text = trace({gemm, relu, kernel("late", 300, 1, 3)});
  text.resize(text.find("late"));
  auto d = diagnose_text(text);
  CHECK(events_of(d) == 2);
  CHECK(d->incomplete);
  CHECK(warns(d, "truncated at byte"));
  // gzip without its end
  std::vector<std::string> many;
  for (int i = 0; i < 3000; ++i) many.push_back(kernel("k" + std::to_string(i * 7919 % 3000), i * 10.0, 5));
  const std::string whole = trace(many);
  std::string packed(compressBound(whole.size()) + 64, '\0');
  z_stream z{};
  REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(whole.data())), z.avail_in = static_cast<uInt>(whole.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data()), z.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  {
    const ScratchFile file(packed, ".json.gz");
    CHECK(events_of(diagnose({file.path()}, {})) == 3000);
  }
  const ScratchFile file(packed.substr(0, packed.size() / 2), ".json.gz");
  d = diagnose({file.path()}, {});
  CHECK(events_of(d) > 500);
  CHECK(d->incomplete);
}
TEST_CASE("11: only metadata events") {
  const auto d = diagnose_text(trace({"{\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 0, \"pid\": 1, \"args\": {\"name\": \"python\"}}"}));
  REQUIRE(d);
  CHECK_FALSE(d->verdict);
  CHECK(warns(d, "no device event"));
}
TEST_CASE("12: an execution trace is named") {
  const auto d = diagnose_text("{\"schema\": \"1.0.1\", \"pid\": 1, \"nodes\": [{\"id\": 1, \"name\": \"op\"}]}");
  REQUIRE_FALSE(d);
  CHECK(d.error().code == "trace-kind");
  CHECK(d.error().message.find("execution trace") != std::string::npos);
}
TEST_CASE("13: an end before its start") {
  const auto d = diagnose_text(trace({gemm, kernel("bad", 500, -1e12), relu}));
  CHECK(events_of(d) == 2);
  CHECK(warns(d, "end before they start"));
}
TEST_CASE("14: kernels without times") {
  const auto d = diagnose_text(trace({kernel("lost", 0, 0), kernel("a", 1e15, 10), kernel("b", 1e15 + 20, 10)}));
  CHECK(events_of(d) == 2);
  CHECK(device(d).span.count() == 30'000);
  CHECK(warns(d, "no time"));
}
TEST_CASE("15: displayTimeUnit changes nothing") {
  CHECK(device(diagnose_text(trace({gemm, relu}, "\"displayTimeUnit\": \"ns\", "))).span == device(diagnose_text(trace({gemm, relu}, "\"displayTimeUnit\": \"ms\", "))).span);
}
TEST_CASE("16: a duration that runs over the next kernels of its stream is clipped for the classes") {
  const auto d = diagnose_text(trace({kernel("attention", 10, 1.6e6), kernel("relu_kernel", 60, 10), kernel("relu_kernel", 80, 10)}));
  REQUIRE(d);
  CHECK(device(d).clipped.count() == 1'600'000'000 - 50'000);
  CHECK(device(d).classes.at(0).second.count() == 50'000);
  CHECK(device(d).busy.count() == 1'600'000'000);
}
TEST_CASE("17: one event above half of the busy time") {
  const auto d = diagnose_text(trace({gemm, relu, kernel("relu_kernel", 220, 10), kernel("attention", 240, 1.6e6)}));
  REQUIRE(d);
  CHECK(device(d).busy <= device(d).span);
  CHECK(std::any_of(d->evidence.begin(), d->evidence.end(), [](const std::string& e) { return e.find("single event") != std::string::npos; }));
}
TEST_CASE("17: steps without device events") {
  const auto d = diagnose_text(trace({event("user_annotation", "ProfilerStep#1", 90, 200), event("user_annotation", "ProfilerStep#2", 1000, 200), gemm, relu}));
  REQUIRE(d);
  CHECK(d->steps.size() == 2);
  CHECK(std::any_of(d->evidence.begin(), d->evidence.end(), [](const std::string& e) { return e.find("1 of 2 steps") != std::string::npos; }));
}
TEST_CASE("18: clocks that differ give no host wait") {
  std::vector<std::string> events;
  for (int i = 0; i < 20; ++i) events.push_back(launch(i * 100.0 + 90, 5, i + 1)), events.push_back(kernel("softmax", i * 100.0, 40, i + 1));
  const auto d = diagnose_text(trace(events));
  REQUIRE(d);
  CHECK(d->verdict != "cpu_io");
  CHECK(device(d).launch.before_their_launch == 20);
}
TEST_CASE("19: overlapping events are united") {
  const auto d = diagnose_text(trace({kernel("a", 0, 10.001, 1, 7), kernel("b", 10, 10, 2, 7), kernel("c", 5, 10, 3, 8)}));
  CHECK(events_of(d) == 3);
  CHECK(device(d).busy.count() == 20'000);
}
TEST_CASE("20: a first step that lost its beginning") {
  std::vector<std::string> events;
  for (int step = 0; step < 4; ++step) {
    events.push_back(event("user_annotation", "ProfilerStep#" + std::to_string(step), step * 1000.0, 1000));
    for (int i = step == 0 ? 8 : 0; i < 10; ++i) events.push_back(kernel("gemm", step * 1000.0 + i * 100, 90));
  }
  const auto d = diagnose_text(trace(events));
  REQUIRE(d);
  CHECK(std::any_of(d->evidence.begin(), d->evidence.end(), [](const std::string& e) { return e.find("lost its beginning") != std::string::npos; }));
}
TEST_CASE("23, 31: figures come from device events and their classes alone") {
  const auto d = diagnose_text(trace({launch(0, 500, 1), kernel("ncclKernel_AllReduce_RING", 600, 40, 1, 9), event("cpu_op", "nccl:all_reduce", 0, 600), kernel("gemm", 0, 1000, 2, 7)}));
  REQUIRE(d);
  CHECK(device(d).comm.total.count() == 40'000);
  CHECK(device(d).kernels.size() == 2);
}
TEST_CASE("21: events before the first step are in no step") {
  const auto d = diagnose_text(trace({kernel("warm", 1, 5), event("user_annotation", "ProfilerStep#1", 90, 200), gemm, relu}));
  REQUIRE(d);
  CHECK(d->steps.at(0).events == 2);
}
TEST_CASE("22: names of collectives in any case; annotations are no kernels") {
  const auto d = diagnose_text(trace({kernel("NCCLDEVKERNEL_AllGather", 0, 10), event("gpu_user_annotation", "nccl:all_reduce", 0, 50), gemm}));
  CHECK(events_of(d) == 2);
  CHECK(device(d).comm.total.count() == 10'000);
  const auto none = diagnose_text(trace({gemm}));
  CHECK(device(none).comm.share == 0);
}
TEST_CASE("24: AMD: stream 0, hip launches, External id") {
  const auto d = diagnose_text(trace({event("cuda_runtime", "hipLaunchKernel", 0, 3, "\"External id\": 9"), event("kernel", "Cijk_gemm", 10, 5, "\"device\": 2, \"stream\": 0, \"External id\": 9"),
                                      event("gpu_memcpy", "CopyHostToDevice", 20, 5, "\"device\": 2, \"stream\": 0")}));
  CHECK(events_of(d) == 2);
  CHECK(device(d).launch.matched == 1);
  CHECK(device(d).copies.kinds.at(0).kind == "h2d");
}
TEST_CASE("25: correlation 0 joins nothing") {
  const auto d = diagnose_text(trace({launch(0, 5, 0), kernel("rccl_main", 100, 5, 0), kernel("gemm", 200, 5, 0)}));
  CHECK(device(d).launch.matched == 0);
  CHECK(device(d).idle.host_wait.count() == 0);
}
TEST_CASE("27: a correlation without a launch") { CHECK(device(diagnose_text(trace({launch(0, 5, 77), gemm, relu}))).launch.unmatched == 2); }
TEST_CASE("28, 29: one graph launch, many kernels") {
  std::vector<std::string> events{launch(0, 20, 5, "cudaGraphLaunch")};
  for (int i = 0; i < 100; ++i) events.push_back(kernel("k", 50 + i * 10.0, 9.5, 5));
  const auto d = diagnose_text(trace(events));
  CHECK(device(d).launch.matched == 100);
  CHECK(device(d).idle.host_wait.count() == 0);
  CHECK(device(d).idle.kernel_wait_median->count() == 500);
}
TEST_CASE("30: every field is optional") { CHECK(events_of(diagnose_text("{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\", \"ts\": 1, \"dur\": 2}]}")) == 1); }
TEST_CASE("32: any API call with the correlation id is a launch") {
  for (const char* name : {"cudaLaunchKernelExC", "cuLaunchKernelEx", "hipExtModuleLaunchKernel", "cudaGraphLaunch", "somethingNew"})
    CHECK(device(diagnose_text(trace({launch(10, 5, 1, name), gemm}))).launch.matched == 1);
}
TEST_CASE("33: never above 100 %") {
  std::vector<std::string> events;
  for (int s = 0; s < 8; ++s) events.push_back(kernel("gemm", 0, 100, 0, s));
  const auto d = diagnose_text(trace(events));
  CHECK(device(d).busy == device(d).span);
}
TEST_CASE("34: pids of both kinds") {
  CHECK(events_of(diagnose_text(trace({"{\"ph\": \"X\", \"cat\": \"Trace\", \"ts\": 1, \"dur\": 5, \"pid\": \"Spans\", \"tid\": \"PyTorch Profiler\", \"name\": \"x\"}", gemm}))) == 1);
}
TEST_CASE("35: devices that the list does not have") {
  const auto d = diagnose_text(trace({event("kernel", "k", 1, 2, "\"device\": 9")}, "\"deviceProperties\": [{\"id\": 0, \"name\": \"GPU zero\"}], "));
  CHECK(device(d).device == 9);
  CHECK_FALSE(device(d).name);
}
TEST_CASE("metadata behind the events, a bare array, old categories") {
  CHECK(diagnose_text("{\"traceEvents\": [" + gemm + "], \"distributedInfo\": {\"rank\": 5}}")->ranks[0].rank == 5);
  CHECK(events_of(diagnose_text("[" + gemm + "," + relu + "]")) == 2);
  CHECK(events_of(diagnose_text(trace({event("Kernel", "k", 1, 2), event("Memcpy", "Memcpy HtoD", 4, 2), event("Memset", "Memset", 7, 2)}))) == 3);
}
TEST_CASE("files that are no trace") {
  for (const std::string& text : {std::string(), std::string("hello"), std::string("{}"), std::string("{\"a\": 1}"), std::string(1000, '['), std::string("\0\0\0", 3)}) {
    const auto d = diagnose_text(text);
    if (!d) CHECK(d.error().exit_code() == 2);
    else CHECK_FALSE(d->verdict);
  }
}

// ---- Nsight Systems

namespace {

std::string database(const std::string& sql) {
  const std::string path = "/tmp/roofcast-trace-" + std::to_string(getpid()) + ".sqlite";
  std::remove(path.c_str());
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &db) == SQLITE_OK);
  char* fault = nullptr;
  sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &fault);
  INFO((fault ? fault : ""));
  CHECK(fault == nullptr);
  sqlite3_close(db);
  return path;
}

const std::string strings = "CREATE TABLE StringIds (id INTEGER, value TEXT); INSERT INTO StringIds VALUES (1, 'sm90_gemm'), (2, 'cudaLaunchKernel_v7000');";
const std::string kernels = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, shortName INTEGER);";

}  // namespace

TEST_CASE("36: a renamed column is named with the schema's version") {
  const std::string path = database(strings + "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT); INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '9.9');"
                                    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (begin INTEGER, end INTEGER);");
  const auto d = diagnose({path}, {});
  REQUIRE(d);
  CHECK(warns(d, "lacks the column start (schema 9.9)"));
}
TEST_CASE("37: tables are optional") {
  const auto d = diagnose({database(strings)}, {});
  REQUIRE(d);
  CHECK(warns(d, "no GPU activity"));
}
TEST_CASE("26, 38: the same correlation in two processes") {
  const int64_t one = int64_t{100} << 24, two = int64_t{200} << 24;
  const std::string path = database(strings + kernels + "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, correlationId INTEGER, globalTid INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 2000, 0, 7, 5, " + std::to_string(one) + ", 1), (9000, 9500, 0, 7, 5, " + std::to_string(two) + ", 1), (9600, NULL, 0, 7, 6, NULL, 1);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 200, 5, " + std::to_string(one + 3) + "), (8000, 8100, 5, " + std::to_string(two + 4) + "), (1, 2, 0, 0);");
  const auto d = diagnose({path}, {});
  CHECK(events_of(d) == 2);
  CHECK(device(d).launch.matched == 2);
  CHECK(device(d).idle.host_wait.count() == 7000);
}
TEST_CASE("28: a graph-level record is busy time of unknown class") {
  const std::string path = database(strings + "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1000, 5000, 0, 7, 1);");
  const auto d = diagnose({path}, {});
  CHECK(device(d).busy.count() == 4000);
  CHECK(device(d).classes.at(0).first == "graph");
}
TEST_CASE("39: names of several GPUs are not guessed") {
  const std::string base = strings + kernels + "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 7, 1, 0, 1);";
  CHECK_FALSE(device(diagnose({database(base + "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT); INSERT INTO TARGET_INFO_GPU VALUES (0, 'A'), (1, 'B');")}, {})).name);
  CHECK(device(diagnose({database(base + "CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT); INSERT INTO TARGET_INFO_GPU VALUES (0, 'A'), (1, 'B');"
                                         "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER); INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, 3);")}, {})).name == "B");
}
TEST_CASE("columns that hold text, a damaged file, another database") {
  const std::string path = database(strings + kernels + "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('x', 2, 0, 7, 1, 0, 1), (5, 3, 0, 7, 1, 0, 1), (10, 20, 'dev', 7, 'c', 'p', 'n');");
  CHECK(events_of(diagnose({path}, {})) == 1);
  for (const std::string& bytes : {std::string("SQLite format 3\0 and then nothing", 33), std::string("SQLite format 3\0", 16) + std::string(5000, '\x7f')}) {
    const ScratchFile file(bytes, ".sqlite");
    const auto d = diagnose({file.path()}, {});
    REQUIRE_FALSE(d);
    CHECK(d.error().code == "sqlite-schema");
  }
  const auto other = diagnose({database("CREATE TABLE songs (id INTEGER);")}, {});
  REQUIRE_FALSE(other);
  CHECK(other.error().code == "sqlite-schema");
}

// ROOFCAST_FUZZ_SECONDS sets how long; the sanitized build runs a minute of it in continuous integration.
TEST_CASE("random damage of both kinds of trace") {
  const char* wanted = std::getenv("ROOFCAST_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(wanted ? std::atoi(wanted) : 2);
  std::vector<std::string> events{event("user_annotation", "ProfilerStep#1", 0, 900)};
  for (int i = 0; i < 20; ++i) events.push_back(launch(i * 10.0, 2, i + 1)), events.push_back(kernel("k\\\"" + std::to_string(i), i * 10.0 + 5, 4.25, i + 1));
  const std::string json = trace(events, "\"deviceProperties\": [{\"id\": 0, \"name\": \"GPU\"}], ");
  const std::string path = database(strings + kernels + "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 7, 1, 0, 1), (5, 9, 0, 7, 2, 0, 1);");
  std::ifstream file(path, std::ios::binary);
  const std::string sqlite((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::mt19937 random(3);
  while (std::chrono::steady_clock::now() < end) {
    for (const std::string* source : {&json, &sqlite}) {
      std::string bytes = *source;
      for (size_t k = 0, n = 1 + random() % 8; k < n; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
      if (random() % 4 == 0) bytes.resize(random() % bytes.size());
      const ScratchFile damaged(bytes, source == &json ? ".json" : ".sqlite");
      const auto d = diagnose({damaged.path()}, {});
      if (!d) REQUIRE(d.error().exit_code() == 2);
    }
  }
}

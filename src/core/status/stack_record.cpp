#include "status/stack_record.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

#include "base/text.hpp"
#include "status/module_answer.hpp"

namespace ddprun::status {

namespace {

// Renders a text that a worker wrote: nothing in it controls a terminal. Ends with one line end; empty if the
// text is.
std::string section(const std::string& title, std::string_view text) {
  const std::string_view inside = trim(text);
  return inside.empty() ? "" : fmt::format("-- {} --\n{}\n", title, printable_lines(inside));
}

}  // namespace

std::string render_stack_record(const std::string& host, const WorkerStatus& worker,
                                const status::Collected& collected, std::int64_t time, int attempt) {
  if (worker.pid == 0) return {};
  const auto seconds = static_cast<std::time_t>(time / 1000);
  const std::string heading =
      fmt::format("== {:%Y-%m-%dT%H:%M:%S}Z, attempt {}, rank {} on {}, pid {} ==\n", fmt::gmtime(seconds),
                  attempt, worker.rank, printable(host, 128), worker.pid);
  return heading + fmt::format("rank {} {}\n", worker.rank, status::describe_place(worker.view)) +
         section("Python threads", status::render_threads(collected.module)) +
         section("Python threads (faulthandler)", collected.dump) +
         section(collected.native_tool, collected.native) + section("flight record", collected.record) +
         section("NCCL's RAS, of all ranks", collected.ras) + "\n";
}

}  // namespace ddprun::status

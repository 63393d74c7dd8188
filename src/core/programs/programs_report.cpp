#include "programs/programs_report.hpp"

#include <algorithm>

#include "options/options.hpp"
#include "programs/replicas.hpp"

namespace ddprun::programs {

namespace {

using Json = nlohmann::ordered_json;

double seconds_between(TimePoint from, TimePoint to) {
  return static_cast<double>(std::chrono::floor<Milliseconds>(to - from).count()) / 1000;
}

Json to_json(const ProgramEnd& end, TimePoint began) {
  return {{"program", end.name},
          {"attempt", end.attempt},
          {"exit_code", end.code},
          {"stopped", end.stopped},
          {"seconds", seconds_between(began, end.at)}};
}

Json program_to_json(const ProgramsJob& job, const ReportedJob& reported, std::size_t program) {
  Json hosts = Json::array();
  for (const int node : job.nodes_of(program)) hosts.push_back(job.hosts()[static_cast<std::size_t>(node)]);
  const auto code = job.code_of(program);
  const auto own = reported.reports.find(program);
  Json report = own == reported.reports.end() ? Json() : Json::parse(own->second, nullptr, false);
  return {{"name", name_of(job.program(program))},
          {"hosts", std::move(hosts)},
          {"state", job.state_of(program)},
          {"starts_again", job.attempt_of(program)},
          {"exit_code", code ? Json(*code) : Json()},
          {"report", report.is_discarded() ? Json() : std::move(report)}};
}

const char* name_result(const ReportedJob& reported) {
  return reported.signal != 0 ? "stopped_by_signal" : reported.code != 0 ? "program_failed" : "succeeded";
}

}  // namespace

std::string render_programs_report(const ProgramsJob& job, const ReportedJob& reported) {
  const auto& all = job.ends();
  const auto first =
      std::ranges::find_if(all, [](const ProgramEnd& end) { return !end.stopped && end.code != 0; });
  Json lost = Json::array(), ends = Json::array(), programs = Json::array();
  for (std::size_t node = 0; node < job.hosts().size(); ++node) {
    if (job.is_gone(static_cast<int>(node))) lost.push_back(job.hosts()[node]);
  }
  for (const ProgramEnd& end : all) ends.push_back(to_json(end, reported.began));
  for (std::size_t i = 0; i < job.size(); ++i) programs.push_back(program_to_json(job, reported, i));
  const double ran = seconds_between(reported.began, reported.now);
  const Json report{
      {"version", 1},
      {"result", name_result(reported)},
      {"what", reported.signal != 0 ? "stopped by " + options::signal_name(reported.signal) : job.why()},
      {"exit_code", reported.code},
      {"signal", reported.signal != 0 ? Json(reported.signal) : Json()},
      {"nodes", job.hosts().size()},
      {"lost_nodes", std::move(lost)},
      {"began", static_cast<double>(reported.unix_now) / 1000 - ran},
      {"ended", static_cast<double>(reported.unix_now) / 1000},
      {"first_failure", first == all.end() ? Json() : to_json(*first, reported.began)},
      {"ends", std::move(ends)},
      {"programs", std::move(programs)}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun::programs

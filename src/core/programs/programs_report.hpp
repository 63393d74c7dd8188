// Report of a job of several programs as JSON (--report): one story of all.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "programs/programs_job.hpp"

namespace ddprun::programs {

// Facts for the report beside the job's own state.
struct ReportedJob {
  std::map<std::size_t, std::string> reports;  // latest report of each program's own ddprun, as JSON
  int code = 0;                                // exit code of the job
  int signal = 0;                              // signal that stopped it; 0: none
  TimePoint began, now;
  std::int64_t unix_now = 0;  // milliseconds since 1970 at `now`
};

// Renders the report of a job that is over: which program failed first, what was stopped for it, how each
// ended and the report of its own ddprun. A text that is no JSON becomes null.
std::string render_programs_report(const ProgramsJob& job, const ReportedJob& reported);

}  // namespace ddprun::programs

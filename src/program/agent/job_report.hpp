// Report of an agent at the end: to the user, to the file of --report, and to a launcher around it.
#pragma once

#include <cstdint>
#include <string>

#include "agent/job_end_watch.hpp"
#include "agent/job_files.hpp"
#include "agent/plans.hpp"
#include "facts/snapshot.hpp"
#include "rendezvous/message.hpp"

namespace ddprun::agent {

// Returns the text for people; writes the file of --report. `began`: Unix time in milliseconds.
std::string report_end(const rendezvous::Finish& finish, const Plans& plans, std::int64_t began,
                       const Requeue& requeue, JobFiles& files);
// Writes the file of --report alone.
// Renders the job's end as --report has it.
std::string render_report_json(const rendezvous::Finish& finish, const Plans& plans, std::int64_t began,
                               const Requeue& requeue);
void write_report(const rendezvous::Finish& finish, const Plans& plans, std::int64_t began,
                  const Requeue& requeue, JobFiles& files);
// Writes the root cause for torchrun around ddprun, in its own format.
void tell_outer_launcher(const report::Cause& cause, JobFiles& files);

}  // namespace ddprun::agent

// Messages about the state of the job, for --status and --stacks; they change nothing.
#pragma once

#include "status/job_status.hpp"

namespace ddprun::rendezvous {

// Question about the whole job, from a process that asks this agent by --status or --stacks.
struct JobQuestion {
  bool stacks = false;
  friend bool operator==(const JobQuestion&, const JobQuestion&) = default;
};

// Question to an agent about its workers, for --status; the state machines ignore it.
struct StatusQuestion {
  int question = 0;     // number of the question
  bool stacks = false;  // asks where they are, too
  friend bool operator==(const StatusQuestion&, const StatusQuestion&) = default;
};

// Answer to StatusQuestion.
struct StatusAnswer {
  int question = 0;
  status::NodeStatus status;
  friend bool operator==(const StatusAnswer&, const StatusAnswer&) = default;
};

// Answer to JobQuestion: each node that told of its workers, then the job, which names those that did not.
struct NodeShown {
  bool stacks = false;
  status::NodeStatus node;
  friend bool operator==(const NodeShown&, const NodeShown&) = default;
};
struct JobShown {
  bool stacks = false;
  status::JobStatus job;
  friend bool operator==(const JobShown&, const JobShown&) = default;
};

}  // namespace ddprun::rendezvous

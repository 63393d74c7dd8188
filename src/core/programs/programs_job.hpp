// Decides on the job's first node when each program starts and is stopped, and when the job ends.
// A state machine that calls nothing: what the nodes say and the time in, orders to all nodes out, in order.
//
//   waiting ──(those of --after are ready)──► running ──(ended on all its nodes)──► over
//                                                ▲                                   │
//                                                └────────(--on-exit restart)────────┘
//
// A program is ready once one of its nodes says so, and one that has ended with 0 is, too. The end of the job
// is decided once: then programs are stopped in order, first those that others do not need
// (--after), and the last order is `end`.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "programs/program.hpp"
#include "programs/replicas.hpp"

namespace ddprun::programs {

enum class Doing { start, stop, end };

struct Order {
  Doing what = Doing::start;
  int program = 0;  // for start and stop
  int attempt = 0;  // attempt that starts or is stopped
  int code = 0;     // exit code of the job, for `end`
  friend bool operator==(const Order&, const Order&) = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Order, what, program, attempt, code)

enum class News { ended, ready, not_ready, gone };

// Message of a node about a program's attempt; `gone`: the node does not answer any more, and nothing of it
// runs.
struct NodeNews {
  News what = News::ended;
  int node = 0;
  int program = 0;
  int attempt = 0;
  int code = 0;          // exit code of ddprun there
  std::string report{};  // text of its --report, from the node that has it
  friend bool operator==(const NodeNews&, const NodeNews&) = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeNews, what, node, program, attempt, code, report)

// A sentence for the user; with a hint it is about a failure.
struct Say {
  std::string what;
  std::string hint{};
  friend bool operator==(const Say&, const Say&) = default;
};

// End of an attempt of a program, for the report.
struct ProgramEnd {
  std::string name;  // "server", or "server 3" of a replica
  int attempt = 0;
  int code = 0;
  bool stopped = false;  // since the job was to end
  TimePoint at;
};

// Things to be done, in this order.
struct JobActions {
  bool changed = false;  // the table of programs: all nodes are told first
  std::vector<Order> orders;
  std::vector<Say> sentences;
};

class ProgramsJob {
 public:
  using Actions = JobActions;

  ProgramsJob(PlacedPrograms placed, std::vector<std::string> hosts);  // `hosts`: of the nodes of the job

  Actions start(TimePoint now);
  Actions on_news(const NodeNews& news, TimePoint now);
  Actions on_stop();  // the job is to end by a signal, which its launcher reports
  Actions on_time(TimePoint now);
  std::optional<TimePoint> deadline() const;

  bool over() const { return over_; }
  // Reports whether a node runs a program that has ended on others: it may be lost.
  bool is_awaited(int node) const;
  bool is_gone(int node) const { return gone_.contains(node); }
  std::string state_of(std::size_t program) const;  // text as in Shown
  std::set<int> ready_nodes(std::size_t program) const { return states_[program].ready_nodes; }
  int attempt_of(std::size_t program) const { return states_[program].attempt; }
  std::size_t size() const { return programs_.size(); }  // number of programs, and of replicas
  const std::vector<std::string>& hosts() const { return hosts_; }
  const Program& program(std::size_t number) const { return programs_[number]; }
  const std::vector<int>& nodes_of(std::size_t program) const { return nodes_[program]; }
  // Returns the exit code of its last end; nullopt: it has not ended.
  std::optional<int> code_of(std::size_t program) const { return states_[program].code; }
  const std::vector<ProgramEnd>& ends() const { return ends_; }  // in their order; the first, and the latest
  const std::string& why() const { return why_; }  // reason for the end of the job; may be empty

 private:
  enum class Phase { waiting, running, stopping, over };
  struct State {
    bool runs() const { return phase == Phase::running || phase == Phase::stopping; }

    Phase phase = Phase::waiting;
    std::size_t group = 0;           // number of its program: replicas of one have the same
    std::vector<std::size_t> needs;  // groups that are ready before it starts (--after)
    bool ready = false;
    int attempt = 0;
    std::map<int, int> ended;  // code by node, of this attempt
    std::set<int> ready_nodes;
    TimePoint started;
    std::optional<TimePoint> again;  // starts again then
    int quick_ends = 0;              // in a row
    std::optional<int> code;         // code of the last end
  };

  bool has_node(std::size_t program, int node) const;
  bool may_start(std::size_t program) const;
  void set_ready(State& state, bool ready);
  std::vector<std::optional<std::size_t>> find_slowest() const;
  void start_those_that_may(TimePoint now);
  void begin(std::size_t program, TimePoint now);
  void tell_lost(int node);
  void note_ended(std::size_t program, TimePoint now);
  bool is_last(std::size_t program) const;
  void start_again(std::size_t program, TimePoint now);
  void end_job(int code, const std::string& why);
  void fail_job(int code, const std::string& what, const std::string& hint);
  void stop_next();
  void tell_waiting(TimePoint now);
  std::string describe_ready(std::size_t program) const;
  std::string name_running() const;
  Actions take();

  std::vector<Program> programs_;
  std::vector<std::vector<int>> nodes_;
  std::vector<std::string> hosts_;
  std::vector<State> states_;
  std::vector<int> unready_;  // number of each group that are not ready
  std::set<int> gone_;
  std::optional<int> ending_;  // code of the job
  std::string why_;
  std::vector<ProgramEnd> ends_;
  bool over_ = false;
  std::optional<TimePoint> tell_at_;
  Actions actions_;
};

}  // namespace ddprun::programs

// All hosts of one launch, what happens to them, and what must hold meanwhile.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent.hpp"

namespace ddprun::simulation {

// What a schedule came to.
struct Summary {
  bool succeeded = false;  // on some host
  bool had_to_succeed = false;
  int worlds = 0;  // that were begun
  int takeovers = 0;
  int restarts = 0;
  int faults = 0;
  int restored = 0;   // worlds that did not start anew
  int published = 0;  // checkpoints
};

// Something does not hold.
struct Violation {
  std::string what;
};

class World {
 public:
  World(unsigned seed, bool trace);
  Summary run();  // throws Violation

  Clock& clock() { return clock_; }
  Random& random() { return random_; }
  Network& network() { return network_; }
  const Launch& launch() const { return launch_; }
  void tell(const std::string& who, const std::string& what) const;  // where it is traced

  // ---- of processes
  std::shared_ptr<Dialling> dial(const Agent& from, const std::string& address, int port);
  void fail_dial(const std::shared_ptr<Dialling>& dialling, const std::string& why);
  Agent* process(int number) { return agents_[static_cast<std::size_t>(number)].get(); }
  int coordinator_place() const { return coordinator_place_; }  // as a rendezvous file would tell
  void note_coordinator(const Agent& agent);
  void note_stage(const std::string& stage);  // a moment for a fault

  // ---- of workers
  void spawn(const Agent& agent, std::size_t index, int coordinator, Attempt attempt, int rank);
  void signal(int agent, std::size_t index, int signal);
  void kill_all_of(int agent);  // by its reaper, or with its host
  void note_end_told(int agent, std::size_t index);

  void note_share(const Agent& agent, int leader, const plan::Assignment& share);

  // ---- of checkpoints (checkpoints.cpp)
  const Histories& histories() const { return histories_; }
  FlushFolder& flush_folder() { return folder_; }
  bool runs_rank(int agent, int rank) const;
  void copy_to_neighbours(Agent& agent, std::int64_t step, int rank, const Copy& part);
  void copy_all(Agent& agent);
  void publish(std::int64_t step, const Agent& agent);
  void check_begun(const Agent& agent, const rendezvous::Start& start) const;

  // ---- of coordinators
  void note_starts(const Agent& agent, const std::vector<std::pair<int, rendezvous::Start>>& starts);
  bool one_loss() const { return one_loss_; }  // a node is lost, and nothing else happens
  void note_restart(const Agent& agent, const rendezvous::ShowRestart& restart);
  void note_end(const Agent& agent, const report::Cause& cause);

 private:
  struct Worker {
    int agent = 0;  // its number
    std::size_t index = 0;
    int coordinator = 0, attempt = 0;  // which world it is of
    int rank = 0;
    int told = 0;  // how often its agent has heard of its end
    bool runs = true, obeys = true, succeeded = false;
  };
  struct Ranks {
    int world_size = 0;
    std::map<int, std::vector<int>> of_place;
  };

  void check_units(const Ranks& ranks) const;
  void check_restores(const Agent& agent, const std::vector<std::pair<int, rendezvous::Start>>& starts);
  void check_newest(int coordinator, const std::vector<std::pair<int, rendezvous::Start>>& starts,
                    std::int64_t step);
  static Launch random_launch(Random& random, unsigned seed);
  void plan_faults();
  void fault();
  void lose_one_that_returns();
  void fault_of_process(Agent& agent);
  void fault_of_host(Agent& agent);
  void fault_of_network();
  void split_for_good();
  void cut(const std::vector<std::pair<int, int>>& paths, const std::string& what);
  void start_again(int place);
  Agent* listener(const std::string& address, int port);
  Agent* running_at(int place);
  Agent* anyone();
  Worker* find(int agent, std::size_t index);
  void end_worker(Worker& worker, ExitStatus status, Microseconds told_after);
  bool is_dazed(const Agent& agent) const;
  void check_overlap(const Worker& worker);
  bool all_frozen() const;
  bool kill_frozen();
  void check_end();
  void require(bool holds, const std::string& what) const;
  bool any_running() const;

  bool trace_;
  Random random_;
  Clock clock_;
  Launch launch_;
  Network network_;
  std::vector<std::unique_ptr<Agent>> agents_;  // by number: all that were ever started
  std::vector<std::unique_ptr<Worker>> workers_;
  int coordinator_place_ = 0;
  int faults_left_ = 0;
  std::optional<std::string> next_stage_;     // at which the next fault happens
  bool one_loss_ = false, for_good_ = false;  // nothing else happens, and the others have to go on
  bool workers_fail_ = false;
  std::set<int> dead_hosts_;
  bool signalled_ = false;
  struct Share {
    int attempt = -2, world_size = 0, rank = 0, restarts = 0;
  };
  std::map<int, Share> shares_;          // the latest, by the number of the agent
  std::set<std::pair<int, int>> begun_;  // worlds
  bool anyone_late_ = false;
  std::map<int, int> used_restarts_;  // by the number of the coordinator
  int world_size_ = 0, hosts_ = 0;    // of the latest world
  // A coordinator that ends the job and is cut off at that moment leaves others that cannot know of it.
  std::set<int> ended_by_;
  Histories histories_;
  FlushFolder folder_;
  Summary summary_;
};

}  // namespace ddprun::simulation

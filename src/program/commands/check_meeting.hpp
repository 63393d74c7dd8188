// Meeting of the workers of a check, through the store: the first one of each node stays.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check/finding.hpp"
#include "check/host_record.hpp"
#include "net/timed_socket.hpp"

namespace ddprun::commands {

// Address at which one node's worker answers.
struct MetNode {
  int rank = 0;
  std::string host;
  std::string address;
  int port = 0;
  std::string word;  // net::k_check_word
  int workers = 0;   // workers of that node
};

class CheckMeeting {
 public:
  // Joins a meeting of `world` workers. In a world of one it connects to no store.
  CheckMeeting(int rank, int world, const std::string& address, int port);

  // Returns this node's address on the way to the store; empty in a world of one.
  std::string local_address() const;

  // Tells the others of this worker, and returns the nodes in the order of the ranks, each with its first
  // worker. Workers that do not come within the limit are left out; rank 0 is told their ranks.
  std::vector<MetNode> meet(const MetNode& own, std::vector<int>& missing);

  // Gives this node's record to rank 0; rank 0 collects the records of all nodes but its own, in the order of
  // the ranks, and the names of nodes that gave none within the limit.
  void give(const check::HostRecord& record, int round);
  std::vector<check::HostRecord> collect(const std::vector<MetNode>& nodes, int round,
                                         std::vector<std::string>& silent);

  // Sends, as rank 0, which ranks are to measure once more, in this order; the others receive it.
  void ask_again(const std::vector<int>& ranks);
  std::vector<int> asked_again();
  // Waits until a worker has given its record of the round.
  void wait_for(int rank, int round);

  // Tells all workers, not only the first of each node, whether torch is tried, and collects what it
  // measured. collect_deep gives the ranks that gave nothing within three minutes an error.
  void call_deep(bool go);
  bool called_deep();
  void give_deep(const check::DeepResult& result);
  std::vector<check::DeepResult> collect_deep();

  void end();
  void wait_for_end();

 private:
  int rank_;
  int world_;
  std::optional<net::StoreClient> store_;
};

}  // namespace ddprun::commands

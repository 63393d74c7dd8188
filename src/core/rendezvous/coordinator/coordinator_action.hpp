// Actions that the coordinator's state machine returns, to be carried out in order.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "allocation/allocation.hpp"
#include "rendezvous/client_questions.hpp"
#include "rendezvous/message.hpp"
#include "status/verdict.hpp"

namespace ddprun::rendezvous {

struct SendTo {
  ConnectionId connection;
  CoordinatorMessage message;
};
// Closes the connection, after what was sent to it is on its way.
struct CloseConnection {
  ConnectionId connection;
  bool reset = false;  // at once, and so that it does not look like the end of this process
};
// Answer with on_store_ready or on_store_failed. `address` is MASTER_ADDR.
struct OpenStore {
  Attempt attempt;
  std::string address;
  int world_size = 1;
  std::vector<std::string> clients;  // addresses of the job's hosts
};
// Closes the store, also one that was asked for and has not answered yet.
struct CloseStore {
  Attempt attempt;
};
// The answer to on_store_client.
struct JudgeClient {
  ClientVerdict verdict;
};
// Ranks hang, and the job goes on.
struct ShowHang {
  status::Verdict verdict;
};
// Shows a line that replaces the one before; empty: nothing to wait for any more.
struct ShowStatus {
  std::string text;
};
// A worker's failure was answered with another attempt.
struct ShowRestart {
  report::Failure cause;
  Attempt next;
  int restarts = 1;  // used, this one included
  int max_restarts = 0;
  Milliseconds delay{0};  // from now to its start
};
// A remark about the launch that stops nothing.
struct ShowNotice {
  allocation::Notice notice;
};
struct Record {  // for --events: the time, and the host where it has none, are to be filled in
  events::Event event;
};
// Always the last action.
struct EndJob {
  report::Cause cause;
};
using CoordinatorAction = std::variant<SendTo, CloseConnection, OpenStore, CloseStore, JudgeClient, ShowHang,
                                       ShowStatus, ShowRestart, ShowNotice, Record, EndJob>;

}  // namespace ddprun::rendezvous

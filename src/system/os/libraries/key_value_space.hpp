// Key-value space of the launcher, for the coordinator's address where agents know no host name.
//
// It runs in a forked child, as look-ups do: libpmix has threads and waits of its own, and a barrier lasts
// until the slowest agent is there. The connection of PMI-1 stays ours; so does the word that ends it.
#pragma once

#include <optional>
#include <string>

#include "base/duration.hpp"
#include "facts/pmi_conversation.hpp"
#include "facts/program.hpp"
#include "os/descriptors.hpp"
#include "os/process/helper_child.hpp"

namespace ddprun::os {

// PMI-1 over a descriptor. The functions block: they are for a child that may be ended.

struct PmiLimits {
  Milliseconds answer{10000};
  Milliseconds barrier{600000};
};

// Connects an IPv4 socket to "host:port"; why not, or nothing.
std::string connect_to_pmi(int socket, const std::string& host_and_port);

// Holds the whole conversation. Bytes are read one line at a time, so that an MPI program may go on where it
// ends.
facts::KeyValueAnswer key_value_space_over_pmi(int descriptor, facts::PmiRequest request,
                                               const PmiLimits& limits);

// Says finalize and reads to its answer, to the end of the connection or to the limit.
void finish_pmi(int descriptor, Milliseconds limit);

// PMIx through libpmix, loaded when first needed.
// The function blocks for as long as the library likes and leaves its threads behind: it is for a child that
// may be ended.

// Puts the value, or fetches that of the coordinator, which is rank 0. Where processes share a node and not
// all are known to take part, the answer is uneven and there is no wait.
facts::KeyValueAnswer key_value_space_over_pmix(const std::string& library,
                                                const std::optional<std::string>& value, bool all_take_part);

// Returns what the server says about this process' launch, a line each: "PMIX_JOB_SIZE=4", then
// PMIX_NUM_NODES, PMIX_LOCAL_RANK, PMIX_LOCAL_SIZE. Empty if it does not say all of them.
std::string ask_pmix_place(const std::string& library);

struct KeyValueRequest {
  enum class Service { pmi1, pmix };
  Service service = Service::pmi1;
  std::optional<std::string> value;  // the coordinator's, printable and without blanks; nullopt: fetch it
  bool all_take_part = false;        // also where several agents share a node
  Milliseconds barrier_limit{600000};
  Milliseconds answer_limit{10000};  // PMI-1: for everything but the barrier
  std::string library = "libpmix.so.2";
};

class KeyValueClient {
 public:
  // Connects to the server that `environment` names: PMI_FD, or PMI_PORT and PMI_ID, PMI_SIZE; libpmix looks
  // at the process' own. Throws Error if there can be no key-value space. Must be called while this process
  // has one thread.
  KeyValueClient(const facts::Environment& environment, const KeyValueRequest& request);

  // Gives render_answer() of an KeyValueAnswer, and then its end.
  int descriptor() const { return child_.descriptor(); }

  // Ends the child. With PMI-1 also the last word, once no worker can use the connection any more: without it
  // the launcher takes our end for a failure and kills the other agents. Waits at most `limit` for the
  // answer.
  void finish(Milliseconds limit);

 private:
  Fd connection_;  // to PMI_PORT
  int pmi_ = -1;   // descriptor of connection_, or PMI_FD; -1 with PMIx
  AnsweringChild child_;
};

}  // namespace ddprun::os

// PMI-1 over a descriptor. The functions block: they are for a child that may be ended.
#pragma once

#include <string>

#include "base/duration.hpp"
#include "facts/pmi_conversation.hpp"

namespace ddprun::os {

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

}  // namespace ddprun::os

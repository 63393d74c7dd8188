// PMIx through libpmix, loaded when first needed.
// The function blocks for as long as the library likes and leaves its threads behind: it is for a child that
// may be ended.
#pragma once

#include <optional>
#include <string>

#include "facts/pmi_conversation.hpp"

namespace ddprun::os {

// Puts the value, or fetches that of the coordinator, which is rank 0. Where processes share a node and not
// all are known to take part, the answer is uneven and there is no wait.
facts::KeyValueAnswer key_value_space_over_pmix(const std::string& library,
                                                const std::optional<std::string>& value, bool all_take_part);

// Returns what the server says about this process' launch, a line each: "PMIX_JOB_SIZE=4", then
// PMIX_NUM_NODES, PMIX_LOCAL_RANK, PMIX_LOCAL_SIZE. Empty if it does not say all of them.
std::string ask_pmix_place(const std::string& library);

}  // namespace ddprun::os

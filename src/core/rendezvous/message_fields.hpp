// Fields of the parts of messages, with their limits: one description for encoding and decoding.
// See base/json_fields.hpp. The fields of the messages themselves are in codec.cpp.
#pragma once

#include "base/json_fields.hpp"

namespace ddprun::rendezvous {

using Fields = JsonFields<nlohmann::json>;

inline constexpr int k_highest_port = 65535;
inline constexpr int k_highest_exit_code = 255;

// Describes the first failure of an attempt or job, of which more is kept, and one beyond it.
void describe_first_failure(Fields& fields, report::Failure& failure);
void describe_further_failure(Fields& fields, report::Failure& failure);
void check_is_failure(Fields& fields, const report::Failure& failure);
void describe_cause(Fields& fields, report::Cause& cause);

void describe_server(Fields& fields, staging::Server& server);
void describe_held(Fields& fields, checkpoint::Held& held);
void describe_restore(Fields& fields, checkpoint::Restore& restore);
void describe_order(Fields& fields, checkpoint::Order& order);

void describe_announcement(Fields& fields, plan::Announcement& announcement);
void describe_assignment(Fields& fields, plan::Assignment& assignment);

}  // namespace ddprun::rendezvous

#include "rendezvous/expected_messages.hpp"

#include <fmt/format.h>

#include <array>

namespace ddprun::rendezvous {

namespace {

using enum Reception;

struct AgentRow {
  const char* name;
  std::array<Reception, 6> when_joined;  // indexed by CoordinatorState
  Reception before;                      // on a connection that has not joined
};

// Rows in the order of AgentMessage. Messages about an attempt are of the current one.
constexpr AgentRow k_agent_rows[] = {
    // clang-format off
    //                          gathering probing opening running stopping finished
    {"a second join",          {wrong,    wrong,  wrong,  wrong,  wrong,   wrong}, taken},
    {"an answer to a probe",   {wrong,    taken,  late,   late,   late,    late},  wrong},
    {"a failure",              {wrong,    wrong,  wrong,  taken,  taken,   late},  wrong},
    {"a success",              {wrong,    wrong,  wrong,  taken,  taken,   late},  wrong},
    {"an answer to a stop",    {wrong,    wrong,  wrong,  wrong,  taken,   late},  wrong},
    {"a report of stuck workers", {wrong,    wrong,  wrong,  wrong,  taken,   late},  wrong},
    {"a request to stop",      {taken,    taken,  taken,  taken,  taken,   late},  wrong},
    {"the owner of a connection",  {taken,    taken,  taken,  taken,  taken,   late},  wrong},
    {"an event",               {taken,    taken,  taken,  taken,  taken,   taken}, wrong},
    {"its status",             {taken,    taken,  taken,  taken,  taken,   late},  wrong},
    {"a report of quiet ranks", {wrong,    wrong,  wrong,  taken,  taken,   late},  wrong},
    {"a report of an early exit", {wrong,    wrong,  wrong,  taken,  taken,   late},  wrong},
    {"a question about the job", {taken,   taken,  taken,  taken,  taken,   late},  late},
    {"a receipt for a roster", {wrong,    taken,  taken,  taken,  taken,   late},  wrong},
    {"a list of modules",      {late,     late,   late,   taken,  taken,   late},  wrong},
    {"a sign of life",         {taken,    taken,  taken,  taken,  taken,   late},  wrong},
    {"a stream of output",     {wrong,    wrong,  wrong,  wrong,  wrong,   wrong}, taken},
    {"a request to restart",   {taken,    taken,  taken,  taken,  taken,   late},  late},
    {"a look at its node",     {wrong,    wrong,  wrong,  wrong,  taken,   late},  wrong},
    {"a request for a profile", {taken,   taken,  taken,  taken,  taken,   late},  late},
    {"a part of a profile",    {taken,    taken,  taken,  taken,  taken,   late},  wrong},
    {"a question about the clock", {taken, taken,  taken,  taken,  taken,   late},  late},
    {"the collectives of its ranks", {wrong, wrong,  wrong,  taken,  taken,   late},  wrong},
    {"its checkpoints",        {taken,    taken,  taken,  taken,  taken,   late},  wrong},
    // clang-format on
};
static_assert(std::size(k_agent_rows) == std::variant_size_v<AgentMessage>);

struct CoordinatorRow {
  const char* name;
  std::array<Reception, 4> by_state;  // MemberState
};

// Rows in the order of CoordinatorMessage.
constexpr CoordinatorRow k_coordinator_rows[] = {
    // clang-format off
    //                                        joined running asked  stopped
    {"a refusal",                            {taken, wrong,  wrong, wrong}},
    {"a probe",                              {taken, wrong,  wrong, taken}},
    {"a question about a connection",        {taken, taken,  taken, taken}},
    {"a question about its status",          {taken, taken,  taken, taken}},
    {"a node's status",                      {taken, taken,  taken, taken}},
    {"the job's status",                     {taken, taken,  taken, taken}},
    {"a roster",                             {taken, taken,  taken, taken}},
    {"a start",                              {taken, wrong,  wrong, taken}},
    {"an order to stand by",                 {taken, wrong,  wrong, taken}},
    {"a list of modules",                    {taken, taken,  taken, taken}},
    {"a question whether it runs",           {taken, taken,  taken, taken}},
    {"a warning of the end",                 {wrong, taken,  wrong, wrong}},
    {"a stop",                               {wrong, taken,  wrong, wrong}},
    {"the end",                              {taken, taken,  taken, taken}},
    {"a reply about a restart",              {taken, taken,  taken, taken}},
    {"an order to look at its node",         {taken, wrong,  wrong, taken}},
    {"a request for a profile",              {taken, taken,  taken, taken}},
    {"a part of a profile",                  {taken, taken,  taken, taken}},
    {"a reply about the clock",              {taken, taken,  taken, taken}},
    {"an order about checkpoints",           {taken, taken,  taken, taken}},
    // clang-format on
};
static_assert(std::size(k_coordinator_rows) == std::variant_size_v<CoordinatorMessage>);

const AgentRow& row_of(const AgentMessage& message) { return k_agent_rows[message.index()]; }
const CoordinatorRow& row_of(const CoordinatorMessage& message) {
  return k_coordinator_rows[message.index()];
}

std::string describe_wrong(const char* name) { return fmt::format("it sent {} unexpectedly", name); }

// Returns nullopt if the message is about no attempt.
std::optional<Attempt> attempt_of(const AgentMessage& message) {
  return std::visit(
      [](const auto& each) -> std::optional<Attempt> {
        if constexpr (requires { each.attempt; }) return each.attempt;
        return std::nullopt;
      },
      message);
}

}  // namespace

Reception judge(const AgentMessage& message, bool joined, CoordinatorState state, Attempt current) {
  const AgentRow& row = row_of(message);
  if (!joined) return row.before;
  const Attempt attempt = attempt_of(message).value_or(current);
  if (attempt == current) return row.when_joined[static_cast<std::size_t>(state)];
  return attempt < current ? late : wrong;
}

Reception judge(const CoordinatorMessage& message, MemberState state) {
  return row_of(message).by_state[static_cast<std::size_t>(state)];
}

MemberState after_received(const CoordinatorMessage& message, MemberState state) {
  if (std::holds_alternative<Start>(message)) return MemberState::running;
  return std::holds_alternative<Stop>(message) ? MemberState::asked : state;
}

MemberState after_sent(const AgentMessage& message, MemberState state) {
  return std::holds_alternative<Stopped>(message) ? MemberState::stopped : state;
}

std::string describe_wrong(const AgentMessage& message) { return describe_wrong(row_of(message).name); }
std::string describe_wrong(const CoordinatorMessage& message) { return describe_wrong(row_of(message).name); }

}  // namespace ddprun::rendezvous

#include "app/started_agent.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>
#include <utility>

#include "agent/driver.hpp"
#include "allocation/detection/started.hpp"
#include "allocation/variables.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "command_line/arguments.hpp"
#include "console/console.hpp"
#include "net/lifeline_sockets.hpp"
#include "os/atomic_file.hpp"
#include "os/process/become.hpp"
#include "peers/authenticators.hpp"
#include "plan/propose.hpp"
#include "rendezvous/missing_agents.hpp"
#include "report/report.hpp"
#include "selflaunch/remote_launcher.hpp"

namespace ddprun::app {

namespace {

constexpr const char* k_by_input = "input";

std::string read_task_from_input() {
  std::string text;
  if (!os::read_standard_input(rendezvous::k_max_task, text))
    throw Error("launch message on standard input is too long");
  os::drop_standard_input();
  return text;
}

// Asks the front end for the task. The time limits are the dial's and the handshake's; after them the
// connection ends with the front end.
std::string ask_front_end(const rendezvous::FrontEndAddress& front_end, int place,
                          const facts::Snapshot& snapshot) {
  boost::asio::io_context context;
  std::string task;
  std::string problem;
  const auto stop_with = [&](const std::string& why) {
    problem = why;
    context.stop();
  };
  net::LifelineClient::Hooks hooks;
  hooks.on_connected = [] {};
  hooks.on_signal = [](const rendezvous::lifeline::Signal&) {};
  hooks.on_task = [&](std::string text) {
    task = std::move(text);
    context.stop();
  };
  hooks.on_gone = [&](const std::string& why) { stop_with(why); };
  hooks.on_unreachable = [&](const std::string& why) { stop_with(why); };
  net::LifelineClient client(context, front_end,
                             peers::make_lifeline_authenticator(snapshot, options::Options{}),
                             {place, snapshot.host.name, true}, std::move(hooks));
  client.start();
  context.run();
  if (task.empty()) {
    throw Error(fmt::format("agent on {} cannot reach its launching ddprun: {}", snapshot.host.name, problem),
                "the launching ddprun must be reachable from this host; choose another remote launcher with "
                "--launcher");
  }
  return task;
}

std::string get_task(const facts::Snapshot& snapshot) {
  const std::vector<std::string>& arguments = snapshot.arguments;
  const std::string from = arguments.size() > 1 ? arguments[1] : std::string();
  if (from == k_by_input) return read_task_from_input();
  const auto front_end = rendezvous::parse_front_end_address(from);
  const auto place = arguments.size() > 2 ? parse_integer(arguments[2]) : -1;
  if (!front_end || !place || *place < -1 || *place > 1 << 24)
    throw UsageError(fmt::format("{} is internal to ddprun", allocation::k_started_by_option),
                     "leave it out");
  return ask_front_end(*front_end, static_cast<int>(*place), snapshot);
}

}  // namespace

void become_started_agent(const facts::Snapshot& snapshot) {
  const auto task = rendezvous::decode_task(get_task(snapshot));
  if (!task) throw Error("truncated launch message");
  std::vector<std::string> arguments{"ddprun"};
  arguments.insert(arguments.end(), task->arguments.begin(), task->arguments.end());
  const std::vector<std::string> environment =
      rendezvous::merge_environments(task->environment, os::capture_environment_strings());
  try {
    os::become_program(os::capture_own_file(), arguments, environment, task->directory, snapshot.host.name);
  } catch (const Error& error) {
    facts::Snapshot there = snapshot;
    for (const std::string& entry : environment) {
      const std::size_t end = entry.find('=');
      if (end != std::string::npos) there.environment[entry.substr(0, end)] = entry.substr(end + 1);
    }
    report_failed_start(there, error.exit_code());
    throw;
  }
}

namespace {

constexpr Milliseconds k_longest_telling{30000};

// Returns the place, only for the front end's messages and its count of connected agents.
int place_of(const facts::Snapshot& snapshot) {
  const auto rank = facts::find_variable(snapshot, allocation::k_started_rank_variable);
  return static_cast<int>(rank ? parse_integer(*rank).value_or(-1) : -1);
}

void tell(const facts::Snapshot& snapshot, const rendezvous::FrontEndAddress& front_end, int code) {
  boost::asio::io_context context;
  std::unique_ptr<net::LifelineClient> client;
  net::LifelineClient::Hooks hooks;
  hooks.on_connected = [&] { client->end({code, false}, [&] { context.stop(); }); };
  hooks.on_signal = [](const rendezvous::lifeline::Signal&) {};
  hooks.on_task = [](const std::string&) {};
  hooks.on_gone = [&](const std::string&) { context.stop(); };
  hooks.on_unreachable = [&](const std::string&) { context.stop(); };
  client = std::make_unique<net::LifelineClient>(
      context, front_end, peers::make_lifeline_authenticator(snapshot, options::Options{}),
      rendezvous::lifeline::Hello{place_of(snapshot), snapshot.host.name, false}, std::move(hooks));
  client->start();
  context.run();
}

// Proposes an agent that only reports its failure. If the options contradict the job, the job's own layout is
// what all hosts share.
plan::NodeProposal propose_telling(const facts::Snapshot& snapshot, options::Options options) {
  try {
    return plan::propose_to_join(snapshot, options, selflaunch::detect_started(snapshot, options));
  } catch (const Error&) {
    options.place.nodes.reset();
    options.place.node_rank.reset();
    options.place.workers_per_node.reset();
    options.place.hosts.reset();
  }
  return plan::propose_to_join(snapshot, options, selflaunch::detect_started(snapshot, options));
}

}  // namespace

bool only_looks(const std::vector<std::string>& arguments, const std::optional<options::Options>& options) {
  if (!options) return command_line::asks_to_look(arguments);
  return options->dry_run != options::DryRun::off || !options->snapshot_file.empty() ||
         !options->capture_file.empty() || options->print_config || options->status || options->stacks ||
         options->profile || options->restart || !options->drain.empty() || !options->timeline_file.empty();
}

std::optional<int> tell_other_agents(const facts::Snapshot& snapshot,
                                     const std::optional<options::Options>& options, const Error& error,
                                     streams::OutputLink& output_link) noexcept {
  try {
    plan::NodeProposal node = propose_telling(snapshot, options.value_or(options::Options{}));
    if (node.rendezvous.role == plan::RendezvousRole::solo) return std::nullopt;
    node.rendezvous.join_timeout = std::min(node.rendezvous.join_timeout, k_longest_telling);
    plan::LaunchPlan expected;
    expected.node = std::make_shared<const plan::NodeProposal>(std::move(node));
    return agent::Driver(expected, snapshot, output_link,
                         rendezvous::make_launch_failure(error.what(), error.hint(), error.exit_code(),
                                                         snapshot.host.name))
        .run();
  } catch (const std::exception& why) {
    console::say_detail(fmt::format("cannot report the failure to the other hosts: {}", why.what()));
    return std::nullopt;
  }
}

void report_failed_start(const facts::Snapshot& snapshot, int code) noexcept {
  try {
    const auto text = facts::find_variable(snapshot, allocation::k_front_end_variable);
    const auto front_end = text ? rendezvous::parse_front_end_address(*text) : std::nullopt;
    if (front_end && code != 0) tell(snapshot, *front_end, code);
  } catch (const std::exception& error) {
    console::say_detail(error.what());
  }
}

void tell_outer_launcher(const facts::Snapshot& snapshot, const Error& error) noexcept {
  try {
    const auto path = facts::find_variable(snapshot, "TORCHELASTIC_ERROR_FILE");
    if (!path || path->empty()) return;
    const report::Cause cause{report::Cause::Kind::launcher_failed, {}, 0, {}, error.what(), error.hint()};
    const std::string why = os::replace_file(*path, report::render_error_file(cause));
    if (!why.empty())
      console::say_detail(fmt::format("cannot write TORCHELASTIC_ERROR_FILE {}: {}", printable(*path), why));
  } catch (const std::exception& problem) {
    console::say_detail(problem.what());
  }
}

}  // namespace ddprun::app

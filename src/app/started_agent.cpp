#include "ddprun/app/started_agent.hpp"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <utility>

#include "ddprun/allocation/started.hpp"
#include "ddprun/app/failed_start.hpp"
#include "ddprun/app/log.hpp"
#include "ddprun/app/provers.hpp"
#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/net/key_prover.hpp"
#include "ddprun/net/lifeline_client.hpp"
#include "ddprun/net/secret_text.hpp"
#include "ddprun/os/become.hpp"
#include "ddprun/os/meeting_file.hpp"

namespace ddprun {

namespace {

constexpr const char* k_option = "--started-by";
constexpr const char* k_by_input = "input";

std::string read_task_from_input() {
  std::string text;
  if (!read_standard_input(k_max_task, text))
    throw Error("what came through standard input is too long for what ddprun sends itself");
  drop_standard_input();
  return text;
}

// What a starter left for its agents in the file that it named; nothing where this host does not see it.
std::optional<std::string> read_launch_key(const std::vector<std::string>& arguments) {
  if (!is_started_agent(arguments) || arguments.size() < 4) return std::nullopt;
  MeetingFileLook look = look_at_meeting_file(arguments[3]);
  if (!look.text) say_detail(fmt::format("no launch key in {}: {}", arguments[3], look.problem));
  return std::move(look.text);
}

// The time limits are the dial's and the handshake's; after them the connection ends with the starter.
std::string ask_starter(const StarterAddress& starter, int place, const Snapshot& snapshot) {
  boost::asio::io_context context;
  std::string task;
  std::string problem;
  const auto stop_with = [&](const std::string& why) {
    problem = why;
    context.stop();
  };
  LifelineClient::Hooks hooks;
  hooks.on_connected = [] {};
  hooks.on_signal = [](const lifeline::Signal&) {};
  hooks.on_task = [&](std::string text) {
    task = std::move(text);
    context.stop();
  };
  hooks.on_gone = [&](const std::string& why) { stop_with(why); };
  hooks.on_unreachable = [&](const std::string& why) { stop_with(why); };
  LifelineClient client(context, starter, make_lifeline_prover(snapshot, Options{}),
                        {place, snapshot.host.name, true}, std::move(hooks));
  client.start();
  context.run();
  if (task.empty()) {
    throw Error(
        fmt::format("cannot ask the ddprun that started this one on {}: {}", snapshot.host.name, problem),
        "it has to be reachable from this host; choose another carrier with --launcher");
  }
  return task;
}

std::string get_task(const Snapshot& snapshot) {
  const std::vector<std::string>& arguments = snapshot.arguments;
  const std::string from = arguments.size() > 1 ? arguments[1] : std::string();
  if (from == k_by_input) return read_task_from_input();
  const auto starter = parse_starter_address(from);
  const auto place = arguments.size() > 2 ? parse_integer(arguments[2]) : -1;
  if (!starter || !place || *place < -1 || *place > 1 << 24)
    throw UsageError(fmt::format("{} is for ddprun itself", k_option), "leave it out");
  return ask_starter(*starter, static_cast<int>(*place), snapshot);
}

}  // namespace

bool is_started_agent(const std::vector<std::string>& arguments) {
  return !arguments.empty() && arguments.front() == k_option;
}

void become_started_agent(const Snapshot& snapshot) {
  const auto task = decode_task(get_task(snapshot));
  if (!task) throw Error("what the ddprun that started this one said is not whole");
  std::vector<std::string> arguments{"ddprun"};
  arguments.insert(arguments.end(), task->arguments.begin(), task->arguments.end());
  const std::vector<std::string> environment =
      merge_environments(task->environment, capture_environment_strings());
  try {
    become_program(capture_own_file(), arguments, environment, task->directory, snapshot.host.name);
  } catch (const Error& error) {
    Snapshot there = snapshot;
    for (const std::string& entry : environment) {
      const std::size_t end = entry.find('=');
      if (end != std::string::npos) there.environment[entry.substr(0, end)] = entry.substr(end + 1);
    }
    report_failed_start(there, error.exit_code());
    throw;
  }
}

Prover make_lifeline_prover(const Snapshot& snapshot, const Options& options) {
  std::optional<std::string> key = find_variable(snapshot, k_starter_key_variable);
  if (!key) key = read_launch_key(snapshot.arguments);
  const auto prover_of = [](const std::string& secret) {
    return make_key_prover(derive_key(ProofMethod::starter, secret), ProofMethod::starter);
  };
  if (key) return prover_of(*key);
  const auto cookie = find_variable(snapshot, "PBS_JOBCOOKIE");
  try {
    return make_prover(options, {}, snapshot);
  } catch (const Error&) {
    if (!cookie || cookie->empty()) throw;
    return prover_of(make_secret_text_from(*cookie));
  }
}

}  // namespace ddprun

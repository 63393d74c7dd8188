#include "app/started_agent.hpp"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <utility>

#include "allocation/detection/started.hpp"
#include "app/failed_start.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "console/log.hpp"
#include "net/lifeline_sockets.hpp"
#include "os/process/become.hpp"
#include "peers/authenticators.hpp"

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

}  // namespace ddprun::app

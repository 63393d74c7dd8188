#include "selflaunch/self_launch_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "allocation/detection/started.hpp"
#include "allocation/hostlist.hpp"
#include "base/text.hpp"

namespace ddprun::selflaunch {

namespace {

using Level = selflaunch::Say::Level;

// Returns a command that shows the reason a remote launcher does not report: no such file on that host, say.
std::string hint_without_agent(const RemoteCommand& command) {
  if (command.words.front() == "ssh") return fmt::format("try ssh {} ddprun --version", command.host);
  const auto own = std::find(command.words.begin(), command.words.end(), allocation::k_started_by_option);
  if (own == command.words.end()) return {};
  std::vector<std::string> words(command.words.begin(), own);
  words.push_back("--version");
  return fmt::format("try {} in the job to check ddprun on {}", shell_quote(words), command.host);
}

}  // namespace

selflaunch::Say say_connected(const rendezvous::lifeline::Hello& hello) {
  return {Level::detail, fmt::format("ddprun on {} has connected", hello.host)};
}

selflaunch::Say say_ended(const rendezvous::lifeline::Hello& hello, int code) {
  return {Level::detail, fmt::format("ddprun on {} ended with {}", hello.host, code)};
}

selflaunch::Say say_lost(const rendezvous::lifeline::Hello& hello, const std::string& why) {
  return {Level::detail, fmt::format("lost ddprun on {}: {}", hello.host, why)};
}

// Reports silence, with its possible causes: a step that waits for CPUs another one holds, a host that does
// not answer, a firewall all look like this.
selflaunch::Say say_silence(const SelfLaunchPlan& plan, Milliseconds silence, int port) {
  return {
      Level::normal,
      fmt::format("{} has been starting ddprun on {} for {}, but none has connected to port {} of this host",
                  plan.remote_launcher.value, allocation::compress_hostlist(plan.hosts),
                  describe_duration(silence), port)};
}

selflaunch::Say say_failed_start(const SelfLaunchPlan& plan, const RemoteCommand& command, int code,
                                 const std::string& words) {
  const std::string where = command.host.empty() ? allocation::compress_hostlist(plan.hosts) : command.host;
  return {Level::error,
          fmt::format("cannot start ddprun on {}: {} ended with {}{}{}", where, command.words.front(), code,
                      words.empty() ? "" : ": ", words),
          command.words.front() == "ssh" ? fmt::format("try ssh {} true", where) : ""};
}

selflaunch::Say say_without_agent(const RemoteCommand& command, int code, bool others_go_on) {
  return {Level::error,
          fmt::format("ddprun did not start on {}: {} ended with {}, and the other hosts {}", command.host,
                      command.words.front(), code, others_go_on ? "continue without it" : "wait for it"),
          hint_without_agent(command)};
}

selflaunch::Say say_no_agent_connected(const SelfLaunchPlan& plan, int code) {
  return {Level::error,
          fmt::format("{} ended with {}, and no ddprun on {} connected back", plan.remote_launcher.value,
                      code, allocation::compress_hostlist(plan.hosts)),
          "see the output above for the cause"};
}

selflaunch::Say say_lost_hosts(const std::vector<std::string>& hosts) {
  return {Level::error, fmt::format("lost the connection to ddprun on {}", join(hosts, ", ")),
          "see the output above for the cause, or that host's system log"};
}

selflaunch::Say say_unreported(const SelfLaunchPlan& plan, std::size_t hosts) {
  return {Level::error,
          fmt::format("{} of {} hosts did not report how ddprun ended there", hosts, plan.hosts.size()),
          plan.passes_exit_code
              ? "see the output above for the cause"
              : fmt::format("see the output above for the cause; {} does not pass on exit codes",
                            plan.remote_launcher.value)};
}

}  // namespace ddprun::selflaunch

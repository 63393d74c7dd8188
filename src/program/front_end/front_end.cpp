#include "front_end/front_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "allocation/detection/started.hpp"
#include "allocation/hostlist.hpp"
#include "base/text.hpp"
#include "console/console.hpp"
#include "event_loop/signal_watch.hpp"
#include "net/authentication.hpp"
#include "net/timers.hpp"
#include "os/clock.hpp"
#include "os/process/become.hpp"
#include "os/system_failure.hpp"
#include "os/terminal/terminal.hpp"
#include "peers/authenticators.hpp"
#include "peers/discovery.hpp"
#include "plan/worker_env.hpp"
#include "report/report.hpp"
#include "site/site.hpp"

namespace ddprun::front_end {

namespace {

using boost::system::error_code;

constexpr std::size_t k_most_addresses = 16;

// Returns the signals to watch, without ^Z's, which stops only the front end: agents that were stopped could
// not hear that they may go on.
std::vector<int> watched_signals(const options::Options& options) {
  std::vector<int> signals = event_loop::watched_signals_of(options);
  std::erase(signals, SIGTSTP);
  std::erase(signals, SIGCONT);
  return signals;
}

std::string describe_start_failure(const ExitStatus& status) {
  return status.reason.empty() ? os::describe_errno(status.value) : status.reason;
}

// Puts JSON on one line: between its words a line end is a space, and not all remote launchers pass on
// variables of several lines.
std::string in_one_line(std::string json) {
  std::replace_if(
      json.begin(), json.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return json;
}

std::string new_id() { return net::make_secret_text().substr(0, 16); }

selflaunch::SelfLaunchSettings settings_of(const options::Options& options, int port) {
  selflaunch::SelfLaunchSettings settings;
  settings.stop_signals = event_loop::stop_signals_of(options);
  settings.shutdown_timeout = options.shutdown_timeout.value;
  settings.port = port;
  return settings;
}

}  // namespace

FrontEnd::FrontEnd(const selflaunch::SelfLaunchPlan& plan, const options::Options& options,
                   const facts::Snapshot& snapshot)
    : plan_(plan),
      options_(options),
      snapshot_(snapshot),
      signals_(context_, watched_signals(options), os::ChildGroup::own_session),
      timer_(context_),
      group_(context_, plan.commands.size(), snapshot.host.name, options.host_timeout.value,
             [this](std::size_t remote_launcher, const ExitStatus& status) {
               on_remote_launcher_end(remote_launcher, status);
             }),
      id_(new_id()),
      server_(context_, make_authenticator_for_agents(), id_, make_hooks(), options.host_timeout.value),
      launch_(plan, settings_of(options, server_.port())),
      grace_(context_) {
  if (plan.least_hosts) group_.allow_lost_hosts();
  console::route_log([this](const std::string& lines) { group_.insert_error(lines); });
}

FrontEnd::~FrontEnd() { console::route_log({}); }

// Makes the proof for agents. For a remote launcher that passes nothing but the job's own variables it leaves
// a file for the key, which only the user can read, and the agents' other proofs.
rendezvous::Authenticator FrontEnd::make_authenticator_for_agents() {
  key_ = net::make_secret_text();
  const auto authenticator_of = [](const std::string& key) {
    return net::make_key_authenticator(net::derive_key(rendezvous::ProofMethod::front_end, key),
                                       rendezvous::ProofMethod::front_end);
  };
  const bool passes_key = plan_.task != selflaunch::TaskWay::lifeline || plan_.commands.front().host.empty();
  if (passes_key) return authenticator_of(key_);
  const bool in_file = hand_over_key();
  try {
    return net::join_authenticators(authenticator_of(key_),
                                    peers::make_authenticator(options_, {}, snapshot_));
  } catch (const Error&) {
    if (in_file) return authenticator_of(key_);
    const auto cookie = facts::find_variable(snapshot_, "PBS_JOBCOOKIE");
    if (!cookie || cookie->empty()) throw;
    cookie_only_ = true;
    key_ = net::make_secret_text_from(*cookie);
    console::say_notice(
        "only PBS_JOBCOOKIE, which other users can compute, authenticates the agents of this job, so they do "
        "not receive the environment of this shell",
        "name a folder that all hosts share with --rdzv-dir");
    return authenticator_of(key_);
  }
}

bool FrontEnd::hand_over_key() {
  const auto home = facts::find_variable(snapshot_, "HOME");
  const std::string& named = options_.rendezvous_directory;
  if (named.empty() && (!home || home->empty())) return false;
  try {
    key_file_.emplace(fmt::format("{}/key.{}", named.empty() ? *home + "/.ddprun" : named, id_), key_);
    group_.remove_at_end(*key_file_);
    return true;
  } catch (const Error& error) {
    console::say_detail(fmt::format("cannot write the launch key to a file: {}", error.what()));
    return false;
  }
}

net::LifelineServer::Hooks FrontEnd::make_hooks() {
  net::LifelineServer::Hooks hooks;
  hooks.on_agent = [this](const rendezvous::lifeline::Hello& hello) {
    carry_out(launch_.on_agent(hello, os::now()));
  };
  hooks.make_task = [this](const rendezvous::lifeline::Hello& hello) { return make_task(hello.place); };
  hooks.on_ended = [this](const rendezvous::lifeline::Hello& hello,
                          const rendezvous::lifeline::Ended& ended) {
    carry_out(launch_.on_agent_ended(hello, ended, os::now()));
  };
  hooks.on_lost = [this](const rendezvous::lifeline::Hello& hello, const std::string& why) {
    carry_out(launch_.on_agent_lost(hello, why, os::now()));
  };
  hooks.on_output = [this](const rendezvous::lifeline::Output& output, net::Tcp::socket socket,
                           const std::string& begun) {
    console::say_detail(fmt::format("output of {} arrives over a separate connection", output.host));
    group_.add_output(output, os::Fd(socket.release()), begun, options_.output.fold);
  };
  hooks.on_link = [this](int socket, bool open) { group_.note_link(socket, open); };
  hooks.on_refused = [](const std::string& address, const std::string& why) {
    console::say_detail(fmt::format("refused a connection from {}: {}", address, why));
  };
  return hooks;
}

// Reports whether the terminal's input goes to rank 0: one remote launcher for all agents has it, unless it
// is needed for the task.
bool FrontEnd::types_for_rank_0() const {
  return snapshot_.host.stdin_is_terminal && plan_.commands.size() == 1 && !plan_.commands[0].task_on_input;
}

facts::Environment FrontEnd::agent_environment() const {
  facts::Environment environment = plan::apply_changes(snapshot_.environment, plan_.changes);
  rendezvous::FrontEndAddress address{peers::crossing_addresses(snapshot_.host.addresses), server_.port(),
                                      id_};
  if (address.addresses.empty()) address.addresses = {"127.0.0.1"};
  if (address.addresses.size() > k_most_addresses) address.addresses.resize(k_most_addresses);
  environment[allocation::k_front_end_variable] = rendezvous::to_string(address);
  environment[allocation::k_started_umask_variable] = fmt::format("{:03o}", os::capture_umask());
  environment[allocation::k_started_streams_variable] = group_.has_one_output() ? "1" : "2";
  if (types_for_rank_0()) environment[allocation::k_started_terminal_variable] = "1";
  environment[allocation::k_front_end_key_variable] = key_;
  if (const int columns = os::terminal_columns(); columns > 0)
    environment.try_emplace("COLUMNS", std::to_string(columns));
  const auto site = snapshot_.files.find(options_.site);
  if (site::names_site_file(options_.site) && site != snapshot_.files.end())
    environment[allocation::k_started_site_variable] = in_one_line(site->second);
  return environment;
}

std::string FrontEnd::make_task(int place) const {
  facts::Environment environment = agent_environment();
  if (cookie_only_)
    std::erase_if(environment, [](const auto& each) { return !each.first.starts_with("DDPRUN_"); });
  if (place >= 0) environment[allocation::k_started_rank_variable] = std::to_string(place);
  return rendezvous::encode(rendezvous::AgentTask{snapshot_.arguments, snapshot_.working_directory,
                                                  plan::make_environment_strings(environment)});
}

int FrontEnd::run() {
  if (plan_.task != selflaunch::TaskWay::environment && make_task(0).size() > rendezvous::k_max_task) {
    throw Error(fmt::format("the environment and the arguments together are longer than {} bytes",
                            rendezvous::k_max_task),
                fmt::format("unset large variables; {} must pass them to the other hosts",
                            plan_.remote_launcher.value));
  }
  watch_signals();
  carry_out(launch_.start(os::now()));
  context_.run();
  return code_;
}

void FrontEnd::watch_signals() {
  event_loop::SignalWatch::Hooks hooks;
  hooks.on_signal = [this](const os::SignalEvent& event) { on_signal(event); };
  hooks.on_verdict = [this](const lifecycle::SignalLedger::Verdict& verdict) {
    carry_out(launch_.on_verdict(verdict, os::now()));
  };
  hooks.on_done = [] {};
  signals_.start(std::move(hooks));
}

void FrontEnd::on_signal(const os::SignalEvent& event) {
  if (event.number == SIGCHLD) return group_.look_for_ends();
  if (event.number == SIGINT && event.is_from_key() && !std::exchange(key_told_, true))
    console::say(report::describe_wait_after_key(options_.shutdown_timeout.value));
  if (event_loop::is_stop_signal(event.number, options_)) {
    grace_.begin(plan_.allocation, options_.shutdown_timeout,
                 {[this](Milliseconds grace) { carry_out(launch_.on_grace(grace, os::now())); }});
  }
  const bool from_person = event_loop::is_from_person(event, plan_.allocation.scheduler.value);
  carry_out(
      launch_.on_signal({event.number, from_person, os::is_passed_on(event), event.from_above}, os::now()));
}

void FrontEnd::on_remote_launcher_end(std::size_t remote_launcher, const ExitStatus& status) {
  const bool not_started = status.kind == ExitStatus::Kind::not_started;
  const std::string words = not_started ? describe_start_failure(status) : group_.last_words(remote_launcher);
  carry_out(launch_.on_remote_launcher_ended(remote_launcher, status, words, os::now()));
}

void FrontEnd::carry_out(const selflaunch::SelfLaunch::Actions& actions) {
  for (const selflaunch::SelfLaunchAction& action : actions)
    std::visit([this](const auto& each) { this->carry_out(each); }, action);
  set_timer();
}

void FrontEnd::carry_out(const selflaunch::Start& action) {
  const selflaunch::RemoteCommand& command = plan_.commands[action.remote_launcher];
  const facts::Environment environment = agent_environment();
  std::vector<std::string> words = command.words;
  std::replace(words.begin(), words.end(), std::string(selflaunch::k_front_end_word),
               environment.at(allocation::k_front_end_variable));
  if (key_file_) words.push_back(key_file_->path());
  console::say_detail(fmt::format(
      "starting ddprun on {}: {}",
      command.host.empty() ? allocation::compress_hostlist(plan_.hosts) : command.host, shell_quote(words)));
  std::optional<std::string> input;
  if (command.task_on_input) input = make_task(static_cast<int>(action.remote_launcher));
  group_.start(action.remote_launcher, words, plan::make_environment_strings(environment), input);
}

void FrontEnd::carry_out(const selflaunch::SignalRemoteLauncher& action) {
  group_.signal(action.remote_launcher, action.number);
}

void FrontEnd::carry_out(const selflaunch::SignalAgents& action) { server_.signal_all(action.signal); }

void FrontEnd::carry_out(const selflaunch::Judge& action) {
  signals_.judge(action.number, lifecycle::SignalWay::own, action.from_above);
}

void FrontEnd::carry_out(const selflaunch::Say& action) {
  switch (action.level) {
    case selflaunch::Say::Level::detail:
      return console::say_detail(action.text);
    case selflaunch::Say::Level::normal:
      return console::say(action.text);
    case selflaunch::Say::Level::error:
      if (!failure_ && !launch_.has_failed_agent()) failure_.emplace(action.text, action.hint);
      return console::say_error(action.text, action.hint);
  }
}

void FrontEnd::carry_out(const selflaunch::Drain& action) {
  group_.when_drained(action.limit, [this] { carry_out(launch_.on_drained()); });
}

void FrontEnd::carry_out(const selflaunch::CountLosses&) {
  carry_out(launch_.on_losses(group_.losses(snapshot_.host.name)));
}

void FrontEnd::carry_out(const selflaunch::Leave& action) {
  code_ = action.code;
  grace_.end();
  server_.close();
  group_.dismiss_reaper();
  signals_.leave();
  context_.stop();
}

void FrontEnd::set_timer() {
  const auto due = launch_.deadline();
  if (due == timer_due_) return;
  timer_due_ = due;
  net::call_at(timer_, due, [this] {
    timer_due_.reset();
    carry_out(launch_.on_time(os::now(), group_.is_busy(launch_.limits().busy_within)));
  });
}

}  // namespace ddprun::front_end

#include "front_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "authenticators.hpp"
#include "ddprun/allocation/hostlist.hpp"
#include "ddprun/allocation/started.hpp"
#include "ddprun/base/error.hpp"
#include "ddprun/base/text.hpp"
#include "ddprun/net/authenticator.hpp"
#include "ddprun/net/secret_text.hpp"
#include "ddprun/os/descriptors.hpp"
#include "ddprun/os/process/become.hpp"
#include "ddprun/os/system_failure.hpp"
#include "ddprun/plan/worker_env.hpp"
#include "ddprun/site/site.hpp"
#include "ddprun/supervise/outcome.hpp"
#include "log.hpp"
#include "own_addresses.hpp"
#include "stop_signals.hpp"

namespace ddprun {

namespace {

using boost::system::error_code;

constexpr std::size_t k_starting_at_once = 32;
constexpr std::chrono::milliseconds k_settling{5000};
// Beyond the workers' grace: the way there, the last kill and the way back.
constexpr Milliseconds k_stop_margin{20000};
constexpr Milliseconds k_silence{30000};
constexpr Milliseconds k_common_end{10000};  // from the first remote launcher's end to the last one's
constexpr Milliseconds k_remote_launcher_patience{5000};
constexpr Milliseconds k_launcher_of_lost_patience{3000};  // it waits for a host that is gone
constexpr Milliseconds k_remote_launcher_mercy{1000};  // between SIGTERM and SIGKILL where no agent is left
constexpr Milliseconds k_hurried_drain_limit{2000};
constexpr std::size_t k_most_addresses = 16;
constexpr lifeline::Signal k_explained_stop{SIGTERM, /*hurry=*/false, /*whole_tree=*/false,
                                            /*explained=*/true};
// What a shell and ssh say when the program could not be run there.
constexpr int k_no_start_codes[] = {k_exit_not_executable, k_exit_not_found, 255};

// ^Z stops only the front end: agents that were stopped could not hear that they may go on.
std::vector<int> watched_signals(const Options& options) {
  std::vector<int> signals = watched_signals_of(options);
  std::erase(signals, SIGTSTP);
  std::erase(signals, SIGCONT);
  return signals;
}

std::string describe_start_failure(const ExitStatus& status) {
  return status.reason.empty() ? describe_errno(status.value) : status.reason;
}

TimePoint now() { return std::chrono::steady_clock::now(); }

// Between the words of JSON a line end is a space, and not all remote launchers pass on variables of several
// lines.
std::string in_one_line(std::string json) {
  std::replace_if(
      json.begin(), json.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return json;
}

std::string new_id() { return make_secret_text().substr(0, 16); }

// What shows the reason that a remote launcher keeps to itself: no such file on that host, say.
std::string hint_for_silence(const RemoteCommand& command) {
  if (command.words.front() == "ssh") return fmt::format("try ssh {} ddprun --version", command.host);
  const auto own = std::find(command.words.begin(), command.words.end(), k_started_by_option);
  if (own == command.words.end()) return {};
  std::vector<std::string> words(command.words.begin(), own);
  words.push_back("--version");
  return fmt::format("try {} in the job to check ddprun on {}", shell_quote(words), command.host);
}

}  // namespace

FrontEnd::FrontEnd(const SelfLaunchPlan& plan, const Options& options, const Snapshot& snapshot)
    : plan_(plan),
      options_(options),
      snapshot_(snapshot),
      signals_(context_, watched_signals(options), ChildGroup::own_session),
      patience_(context_),
      silence_(context_),
      group_(context_, plan.commands.size(),
             [this](std::size_t remote_launcher, const ExitStatus& status) {
               on_remote_launcher_end(remote_launcher, status);
             }),
      id_(new_id()),
      server_(context_, make_authenticator_for_agents(), id_, make_hooks(), options.link_timeout.value),
      remote_launchers_(plan.commands.size()) {
  route_log([this](const std::string& lines) { group_.insert_error(lines); });
}

FrontEnd::~FrontEnd() { route_log({}); }

// A remote launcher that passes nothing but the job's own variables leaves a file for the key, which only the
// user can read, and what agents prove otherwise.
Authenticator FrontEnd::make_authenticator_for_agents() {
  key_ = make_secret_text();
  const auto authenticator_of = [](const std::string& key) {
    return make_key_authenticator(derive_key(ProofMethod::front_end, key), ProofMethod::front_end);
  };
  const bool passes_key = plan_.task != TaskWay::lifeline || plan_.commands.front().host.empty();
  if (passes_key) return authenticator_of(key_);
  const bool in_file = hand_over_key();
  try {
    return join_authenticators(authenticator_of(key_), make_authenticator(options_, {}, snapshot_));
  } catch (const Error&) {
    if (in_file) return authenticator_of(key_);
    const auto cookie = find_variable(snapshot_, "PBS_JOBCOOKIE");
    if (!cookie || cookie->empty()) throw;
    cookie_only_ = true;
    key_ = make_secret_text_from(*cookie);
    say_notice(
        "only PBS_JOBCOOKIE, which other users can compute, authenticates the agents of this job, so they do "
        "not receive the environment of this shell",
        "name a folder that all hosts share with --rdzv-dir");
    return authenticator_of(key_);
  }
}

bool FrontEnd::hand_over_key() {
  const auto home = find_variable(snapshot_, "HOME");
  const std::string& named = options_.rendezvous_directory;
  if (named.empty() && (!home || home->empty())) return false;
  try {
    key_file_.emplace(fmt::format("{}/key.{}", named.empty() ? *home + "/.ddprun" : named, id_), key_);
    group_.remove_at_end(*key_file_);
    return true;
  } catch (const Error& error) {
    say_detail(fmt::format("cannot write the launch key to a file: {}", error.what()));
    return false;
  }
}

LifelineServer::Hooks FrontEnd::make_hooks() {
  LifelineServer::Hooks hooks;
  hooks.on_agent = [this](const lifeline::Hello& hello) { on_agent(hello); };
  hooks.make_task = [this](const lifeline::Hello& hello) { return make_task(hello.place); };
  hooks.on_ended = [this](const lifeline::Hello& hello, const lifeline::Ended& ended) {
    say_detail(fmt::format("ddprun on {} ended with {}", hello.host, ended.code));
    told_.push_back(ended.code);
    if (!ended.started) give_up(ended.code);
    release_remote_launchers();
  };
  hooks.on_lost = [this](const lifeline::Hello& hello, const std::string& why) {
    say_detail(fmt::format("lost ddprun on {}: {}", hello.host, why));
    lost_.push_back(hello.host);
    release_remote_launchers();
  };
  hooks.on_output = [this](const lifeline::Output& output, Tcp::socket socket, const std::string& begun) {
    say_detail(fmt::format("output of {} arrives over a separate connection", output.host));
    group_.add_output(output.stream, Fd(socket.release()), begun);
  };
  hooks.on_refused = [](const std::string& address, const std::string& why) {
    say_detail(fmt::format("refused a connection from {}: {}", address, why));
  };
  return hooks;
}

// One remote launcher for all agents has the terminal's input, unless it is needed for the task.
bool FrontEnd::types_for_rank_0() const {
  return snapshot_.host.stdin_is_terminal && plan_.commands.size() == 1 && !plan_.commands[0].task_on_input;
}

Environment FrontEnd::agent_environment() const {
  Environment environment = apply_changes(snapshot_.environment, plan_.changes);
  FrontEndAddress address{crossing_addresses(snapshot_.host.addresses), server_.port(), id_};
  if (address.addresses.empty()) address.addresses = {"127.0.0.1"};
  if (address.addresses.size() > k_most_addresses) address.addresses.resize(k_most_addresses);
  environment[k_front_end_variable] = to_string(address);
  environment[k_started_umask_variable] = fmt::format("{:03o}", capture_umask());
  environment[k_started_streams_variable] = group_.has_one_output() ? "1" : "2";
  if (types_for_rank_0()) environment[k_started_terminal_variable] = "1";
  environment[k_front_end_key_variable] = key_;
  const auto site = snapshot_.files.find(options_.site);
  if (names_site_file(options_.site) && site != snapshot_.files.end())
    environment[k_started_site_variable] = in_one_line(site->second);
  return environment;
}

std::string FrontEnd::make_task(int place) const {
  Environment environment = agent_environment();
  if (cookie_only_)
    std::erase_if(environment, [](const auto& each) { return !each.first.starts_with("DDPRUN_"); });
  if (place >= 0) environment[k_started_rank_variable] = std::to_string(place);
  return encode(
      AgentTask{snapshot_.arguments, snapshot_.working_directory, make_environment_strings(environment)});
}

int FrontEnd::run() {
  if (plan_.task != TaskWay::environment && make_task(0).size() > k_max_task) {
    throw Error(
        fmt::format("the environment and the arguments together are longer than {} bytes", k_max_task),
        fmt::format("unset large variables; {} must pass them to the other hosts",
                    plan_.remote_launcher.value));
  }
  watch_signals();
  start_some();
  tell_of_silence();
  context_.run();
  return exit_code();
}

// A step that waits for CPUs another one holds, a host that does not answer, a firewall: all look like this.
void FrontEnd::tell_of_silence() {
  silence_.expires_after(k_silence);
  silence_.async_wait([this](const error_code& error) {
    if (error) return;
    say(fmt::format(
        "{} has been starting ddprun on {} for {}, but none has connected to port {} of this host",
        plan_.remote_launcher.value, compress_hostlist(plan_.hosts), describe_duration(k_silence),
        server_.port()));
  });
}

void FrontEnd::start_some() {
  const auto unsettled = [this] {
    return std::count_if(remote_launchers_.begin(), remote_launchers_.end(),
                         [](const RemoteLauncher& remote_launcher) {
                           return remote_launcher.started && !remote_launcher.settled;
                         });
  };
  for (std::size_t i = 0; i < remote_launchers_.size(); ++i) {
    if (stopped_by_ || failure_code_ || static_cast<std::size_t>(unsettled()) >= k_starting_at_once) return;
    if (!remote_launchers_[i].started) start(i);
  }
}

void FrontEnd::start(std::size_t remote_launcher) {
  const RemoteCommand& command = plan_.commands[remote_launcher];
  const Environment environment = agent_environment();
  std::vector<std::string> words = command.words;
  std::replace(words.begin(), words.end(), std::string(k_front_end_word),
               environment.at(k_front_end_variable));
  if (key_file_) words.push_back(key_file_->path());
  say_detail(fmt::format("starting ddprun on {}: {}",
                         command.host.empty() ? compress_hostlist(plan_.hosts) : command.host,
                         shell_quote(words)));
  std::optional<std::string> input;
  if (command.task_on_input) input = make_task(static_cast<int>(remote_launcher));
  remote_launchers_[remote_launcher].started = true;
  group_.start(remote_launcher, words, make_environment_strings(environment), input);
  if (plan_.commands.size() <= k_starting_at_once) return;
  auto timer = std::make_shared<boost::asio::steady_timer>(context_, k_settling);
  timer->async_wait([this, remote_launcher, timer](const error_code&) { settle(remote_launcher); });
}

void FrontEnd::settle(std::size_t remote_launcher) {
  if (leaving_ || std::exchange(remote_launchers_[remote_launcher].settled, true)) return;
  start_some();
}

void FrontEnd::on_agent(const lifeline::Hello& hello) {
  silence_.cancel();
  say_detail(fmt::format("ddprun on {} has connected", hello.host));
  const bool one_each = !plan_.commands.front().host.empty();
  const auto remote_launcher = one_each ? static_cast<std::size_t>(std::max(hello.place, 0)) : 0;
  if (remote_launcher < remote_launchers_.size()) {
    remote_launchers_[remote_launcher].connected = true;
    settle(remote_launcher);
  }
  // It came while the others were being stopped.
  if (stopped_by_) return server_.signal_all({*stopped_by_});
  if (failure_code_) server_.signal_all(k_explained_stop);
}

// Other codes may be the job's, from an agent that could not reach us.
bool FrontEnd::could_not_start(std::size_t remote_launcher, const ExitStatus& status) const {
  const int code = exit_code_of(status);
  if (code == 0 || stopped_by_ || remote_launchers_[remote_launcher].connected) return false;
  if (plan_.task != TaskWay::input || status.kind == ExitStatus::Kind::not_started) return true;
  return std::find(std::begin(k_no_start_codes), std::end(k_no_start_codes), code) !=
         std::end(k_no_start_codes);
}

void FrontEnd::on_remote_launcher_end(std::size_t remote_launcher, const ExitStatus& status) {
  const RemoteCommand& command = plan_.commands[remote_launcher];
  const int code = exit_code_of(status);
  remote_launchers_[remote_launcher].code = code;
  if (could_not_start(remote_launcher, status) && !failure_code_) {
    const bool not_started = status.kind == ExitStatus::Kind::not_started;
    const std::string words =
        not_started ? describe_start_failure(status) : group_.last_words(remote_launcher);
    const std::string where = command.host.empty() ? compress_hostlist(plan_.hosts) : command.host;
    say_error(fmt::format("cannot start ddprun on {}: {} ended with {}{}{}", where, command.words.front(),
                          code, words.empty() ? "" : ": ", words),
              command.words.front() == "ssh" ? fmt::format("try ssh {} true", where) : "");
    give_up(code == 255 ? k_exit_own_failure : code);
  }
  settle(remote_launcher);
  finish_when_over();
  if (!leaving_ && !remote_launchers_[remote_launcher].connected) expect_end_of_all(remote_launcher);
}

// Its ddprun never called back: either the job is over and no agent could reach us, or this host does not
// take part, and the others would wait for it.
void FrontEnd::expect_end_of_all(std::size_t remote_launcher) {
  auto timer = std::make_shared<boost::asio::steady_timer>(context_, k_common_end);
  timer->async_wait([this, remote_launcher, timer](const error_code&) {
    if (leaving_ || failure_code_ || stopped_by_) return;
    const RemoteCommand& command = plan_.commands[remote_launcher];
    say_error(fmt::format("ddprun did not start on {}: {} ended with {}, and the other hosts wait for it",
                          command.host, command.words.front(), *remote_launchers_[remote_launcher].code),
              hint_for_silence(command));
    give_up(*remote_launchers_[remote_launcher].code == 0 ? k_exit_own_failure
                                                          : *remote_launchers_[remote_launcher].code);
    finish_when_over();
  });
}

// One host cannot take part: the others, which would wait for it, are stopped.
void FrontEnd::give_up(int code) {
  if (failure_code_) return;
  failure_code_ = code;
  server_.signal_all(k_explained_stop);
  signal_remote_launchers(SIGTERM, /*only_unconnected=*/true);
  give_up_on_remote_launchers(options_.shutdown_timeout.value + k_stop_margin, k_remote_launcher_patience);
}

void FrontEnd::watch_signals() {
  SignalWatch::Hooks hooks;
  hooks.on_signal = [this](const SignalEvent& event) { on_signal(event); };
  hooks.on_verdict = [this](const SignalLedger::Verdict& verdict) { on_verdict(verdict); };
  hooks.on_done = [] {};
  signals_.start(std::move(hooks));
}

void FrontEnd::on_signal(const SignalEvent& event) {
  if (event.number == SIGCHLD) {
    group_.look_for_ends();
  } else if (is_stop_signal(event.number, options_)) {
    note_stop_signal(event);
  } else if (!is_passed_on(event)) {
    return;
  } else {
    signals_.judge(event.number, SignalWay::own, event.from_above);
  }
}

void FrontEnd::note_stop_signal(const SignalEvent& event) {
  if (leaving_) {  // only output is still to be written
    if (!std::exchange(hurried_, true)) drain();
    return;
  }
  const bool first = !stopped_by_;
  const bool soon = !first && now() - last_stop_signal_ < k_same_signal_window;
  const bool again = !first && !soon && is_from_person(event, plan_.allocation.scheduler.value);
  if (first) stopped_by_ = event.number;
  if (first || again) last_stop_signal_ = now();
  if (again) return stop({event.number, /*hurry=*/true, /*whole_tree=*/false});
  if (first || event.number != *stopped_by_) signals_.judge(event.number, SignalWay::own, event.from_above);
}

void FrontEnd::on_verdict(const SignalLedger::Verdict& verdict) {
  const lifeline::Signal signal{verdict.number, /*hurry=*/false, verdict.whole_tree};
  if (is_stop_signal(verdict.number, options_)) return stop(signal);
  if (server_.connected() > 0) return server_.signal_all(signal);
  for (std::size_t i = 0; verdict.pass_on && i < remote_launchers_.size(); ++i)
    group_.signal(i, verdict.number);
}

void FrontEnd::stop(const lifeline::Signal& signal) {
  server_.signal_all(signal);
  signal_remote_launchers(SIGTERM, /*only_unconnected=*/true);
  const bool heard = !signal.hurry && server_.connected() > 0;
  give_up_on_remote_launchers(
      heard ? options_.shutdown_timeout.value + k_stop_margin : k_remote_launcher_patience,
      k_remote_launcher_patience);
  finish_when_over();
}

// Those that never called back may still be at work: a firewall lets some agents do without a lifeline.
void FrontEnd::release_remote_launchers() {
  if (leaving_ || server_.connected() > 0) return;
  const bool all = told_.size() + lost_.size() >= plan_.hosts.size();
  if (all && !std::exchange(releasing_, true)) {
    give_up_on_remote_launchers(lost_.empty() ? k_remote_launcher_patience : k_launcher_of_lost_patience,
                                k_remote_launcher_mercy);
  } else if (!all && !stopped_by_ && !failure_code_) {
    give_up_on_remote_launchers(options_.shutdown_timeout.value + k_stop_margin, k_remote_launcher_patience);
  }
  finish_when_over();
}

// Output that is still on its way, or that nobody reads, holds a remote launcher up through no fault of its
// own.
bool FrontEnd::is_heard() const {
  return releasing_ && !stopped_by_ && group_.is_busy(k_remote_launcher_mercy);
}

// SIGTERM to the remote launchers when the patience is over, SIGKILL after the mercy; what is there then is
// left.
void FrontEnd::give_up_on_remote_launchers(Milliseconds patience, Milliseconds mercy) {
  patience_.expires_after(patience);
  patience_.async_wait([this, mercy](const error_code& error) {
    if (error) return;
    if (is_heard()) return give_up_on_remote_launchers(mercy, mercy);
    signal_remote_launchers(SIGTERM, /*only_unconnected=*/false);
    patience_.expires_after(mercy);
    patience_.async_wait([this, mercy](const error_code& stopped) {
      if (stopped) return;
      signal_remote_launchers(SIGKILL, /*only_unconnected=*/false);
      patience_.expires_after(mercy);
      patience_.async_wait([this](const error_code& ended) {
        if (ended) return;
        abandoned_ = true;
        finish_when_over();
      });
    });
  });
}

void FrontEnd::signal_remote_launchers(int number, bool only_unconnected) {
  for (std::size_t i = 0; i < remote_launchers_.size(); ++i) {
    if (!only_unconnected || !remote_launchers_[i].connected) group_.signal(i, number);
  }
}

void FrontEnd::finish_when_over() {
  const bool over = std::all_of(remote_launchers_.begin(), remote_launchers_.end(),
                                [this](const RemoteLauncher& remote_launcher) {
                                  return remote_launcher.code.has_value() ||
                                         (!remote_launcher.started && (stopped_by_ || failure_code_));
                                });
  const bool nothing_left = over && server_.connected() == 0;
  if (!(nothing_left || abandoned_) || std::exchange(leaving_, true)) return;
  patience_.cancel();
  silence_.cancel();
  hurried_ = stopped_by_ || abandoned_;
  drain();
}

void FrontEnd::drain() {
  group_.when_drained(hurried_ ? std::optional(k_hurried_drain_limit) : std::nullopt, [this] { leave(); });
}

void FrontEnd::leave() {
  say_if_end_is_unknown();
  for (const std::string& loss : group_.losses(snapshot_.host.name)) {
    say_error(loss);
    if (exit_code() == 0) failure_code_ = k_exit_own_failure;
  }
  server_.close();
  group_.dismiss_reaper();
  signals_.leave();
  context_.stop();
}

// Where the remote launcher ends with 0 whatever became of its task, silence is not success. Nor is it where
// an agent was there and has gone without a word; one that is left says so itself, and ends with a failure.
void FrontEnd::say_if_end_is_unknown() const {
  if (failure_code_ || stopped_by_ || told_.size() == plan_.hosts.size()) return;
  const bool said = std::any_of(told_.begin(), told_.end(), [](int code) { return code != 0; });
  if (told_.empty() && lost_.empty() && exit_code() != 0)
    return say_error(fmt::format("{} ended with {}, and no ddprun on {} connected back",
                                 plan_.remote_launcher.value, exit_code(), compress_hostlist(plan_.hosts)),
                     "see the output above for the cause");
  if (!lost_.empty() && !said)
    return say_error(fmt::format("lost the connection to ddprun on {}", join(lost_, ", ")),
                     "see the output above for the cause, or that host's system log");
  if (plan_.passes_exit_code || said) return;
  say_error(fmt::format("{} of {} hosts did not report how ddprun ended there",
                        plan_.hosts.size() - told_.size(), plan_.hosts.size()),
            fmt::format("see the output above for the cause; {} does not pass on exit codes",
                        plan_.remote_launcher.value));
}

int FrontEnd::exit_code() const {
  if (failure_code_) return *failure_code_;
  for (const int code : told_) {
    if (code != 0) return code;
  }
  if (told_.size() == plan_.hosts.size()) return 0;
  if (stopped_by_) return 128 + *stopped_by_;
  if (!releasing_) {  // else it may have ended because we made it
    for (const RemoteLauncher& remote_launcher : remote_launchers_) {
      if (remote_launcher.code.value_or(0) != 0) return *remote_launcher.code;
    }
  }
  return plan_.passes_exit_code && lost_.empty() ? 0 : k_exit_own_failure;
}

}  // namespace ddprun

// A worker that behaves as its first argument says. It speaks in whole lines and flushes each.
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

using Arguments = std::vector<std::string>;

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

[[noreturn]] void sleep_until_killed() {
  while (true) ::pause();
}

int exit_with(const Arguments& arguments) { return std::stoi(arguments.at(0)); }

int die_by(const Arguments& arguments) {
  ::raise(std::stoi(arguments.at(0)));
  sleep_until_killed();
}

int sleep_forever(const Arguments&) {
  say("ready");
  sleep_until_killed();
}

// Goes on as a thread without its first one.
int end_first_thread(const Arguments&) {
  std::thread([] {
    say("ready");
    sleep_until_killed();
  }).detach();
  ::pthread_exit(nullptr);
}

// MIB of memory take the kernel some time to free when it ends; the last of its threads does that.
int hold_memory(const Arguments& arguments) {
  const std::size_t size = std::stoul(arguments.at(0)) << 20U;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || ::madvise(memory, size, MADV_NOHUGEPAGE) != 0) return 1;
  std::memset(memory, 1, size);
  for (int thread = 0; thread < 8; ++thread) std::thread(sleep_until_killed).detach();
  say("ready");
  sleep_until_killed();
}

int ignore_term(const Arguments&) {
  ::signal(SIGTERM, SIG_IGN);
  say("ready");
  sleep_until_killed();
}

// Leaves a process in a session of its own that keeps our output open. "stay": we stay too.
int leave_grandchild(const Arguments& arguments) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setsid();
    say("grandchild " + std::to_string(::getpid()));
    sleep_until_killed();
  }
  if (!arguments.empty() && arguments[0] == "stay") sleep_until_killed();
  return 0;
}

int print_env(const Arguments& arguments) {
  for (const std::string& name : arguments) {
    const char* value = std::getenv(name.c_str());
    say(name + "=" + (value != nullptr ? value : "(unset)"));
  }
  return 0;
}

std::string signal_set(const std::function<bool(int)>& contains) {
  std::string numbers;
  for (int signal = 1; signal < 32; ++signal) {
    if (contains(signal)) numbers += " " + std::to_string(signal);
  }
  return numbers;
}

// What a child inherits: descriptors, blocked and ignored signals, group, session, directory, CPUs.
int print_state(const Arguments&) {
  std::string descriptors;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) descriptors += " " + std::to_string(descriptor);
  }
  say("descriptors" + descriptors);
  sigset_t mask;
  ::sigprocmask(SIG_SETMASK, nullptr, &mask);
  say("blocked" + signal_set([&](int signal) { return ::sigismember(&mask, signal) == 1; }));
  say("ignored" + signal_set([](int signal) {
        struct sigaction action {};
        return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
      }));
  say(std::string("group ") + (::getpgrp() == ::getpid() ? "own" : "inherited"));
  say(std::string("session ") + (::getsid(0) == ::getpid() ? "own" : "inherited"));
  char directory[4096];
  say(std::string("directory ") + ::getcwd(directory, sizeof directory));
  cpu_set_t cpus;
  ::sched_getaffinity(0, sizeof cpus, &cpus);
  say("cpus " + std::to_string(CPU_COUNT(&cpus)));
  return 0;
}

// Where it runs and takes its memory from, told by itself and by a child of its own.
void say_binding(const std::string& who) {
  cpu_set_t cpus;
  ::sched_getaffinity(0, sizeof cpus, &cpus);
  std::string line = who + " cpus";
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &cpus)) line += " " + std::to_string(cpu);
  }
  int mode = -1;
  unsigned long nodes[64] = {};
  if (::syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof nodes, nullptr, 0) != 0) mode = -1;
  say(line + " memory " + std::to_string(mode) + ":" + std::to_string(nodes[0]));
}

int print_binding(const Arguments&) {
  say_binding("worker");
  const pid_t pid = ::fork();
  if (pid == 0) {
    say_binding("grandchild");
    ::_exit(0);
  }
  return ::waitpid(pid, nullptr, 0) == pid ? 0 : 1;
}

// flood LINES NAME: numbered lines of different lengths, written in pieces that do not end with them.
int flood(const Arguments& arguments) {
  const long lines = std::stol(arguments.at(0));
  std::string text;
  for (long line = 0; line < lines; ++line) {
    text += arguments.at(1) + " " + std::to_string(line) + " " +
            std::string(static_cast<std::size_t>(line * 7 % 150), 'x') + "\n";
    while (text.size() > 1000) {
      if (::write(1, text.data(), 1000) != 1000) return 1;
      text.erase(0, 1000);
    }
  }
  return ::write(1, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1;
}

int close_output(const Arguments&) {
  say("last words");
  ::close(1);
  sleep_until_killed();
}

int read_lines(const Arguments&) {
  say("reading");
  char line[256];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    if (std::strcmp(line, "quit\n") == 0) return 0;
    say(std::string("got ") + std::string(line, std::strlen(line) - 1));
  }
  say("end of input");
  return 0;
}

const std::map<std::string, int (*)(const Arguments&)> k_behaviours = {
    {"exit_with", exit_with},
    {"die_by", die_by},
    {"sleep_forever", sleep_forever},
    {"hold_memory", hold_memory},
    {"end_first_thread", end_first_thread},
    {"ignore_term", ignore_term},
    {"leave_grandchild", leave_grandchild},
    {"print_env", print_env},
    {"print_state", print_state},
    {"print_binding", print_binding},
    {"flood", flood},
    {"close_output", close_output},
    {"read_lines", read_lines},
};

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments(argv + (argc > 1 ? 2 : 1), argv + argc);
  const auto behaviour = argc > 1 ? k_behaviours.find(argv[1]) : k_behaviours.end();
  if (behaviour == k_behaviours.end()) return 2;
  return behaviour->second(arguments);
}

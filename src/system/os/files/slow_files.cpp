#include "os/files/slow_files.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "os/atomic_file.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/child.hpp"
#include "os/process/child_call.hpp"
#include "os/process/helper_child.hpp"
#include "os/process/serving_child.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

constexpr const char* k_hangs = "its file system does not answer";
constexpr const char* k_hint = "look for a file system that hangs (df, dmesg), or name a file on another one";
constexpr Milliseconds k_pause{60000};
constexpr std::size_t k_most_read = std::size_t{32} << 20U;
constexpr std::size_t k_longest_answer = 4096;
constexpr char k_done = '+', k_failed = '-';

int open_and_send(int socket, const std::string& path) {
  const OpenedFile opened = open_to_append(path);
  const TimePoint deadline = now() + k_file_system_limit;
  if (!opened.file) return send_whole(socket, k_failed + opened.problem, {}, deadline) ? 0 : 1;
  const int flags = ::fcntl(opened.file.get(), F_GETFL);
  ::fcntl(opened.file.get(), F_SETFL, flags & ~O_NONBLOCK);  // a worker does not expect it
  return send_whole(socket, std::string(1, k_done), {opened.file.get()}, deadline) ? 0 : 1;
}

std::string problem_of(const std::function<std::string()>& act) {
  try {
    return ask_file_system("", act);
  } catch (const Error& error) {
    return std::string(error.what()).substr(std::strlen(": "));
  }
}

}  // namespace

std::string ask_file_system(const std::string& what, const std::function<std::string()>& act) {
  const ChildAnswer answer = call_in_child(
      [&] {
        try {
          return k_done + act();
        } catch (const Error& error) {
          return k_failed + std::string(error.what()) + '\n' + error.hint();
        }
      },
      k_file_system_limit, k_most_read);
  if (answer.timed_out) throw Error(what + ": " + k_hangs, k_hint);
  if (!answer.bytes) throw Error(what + ": " + answer.problem);
  if (answer.bytes->front() == k_done) return answer.bytes->substr(1);
  const std::size_t end = answer.bytes->rfind('\n');
  throw Error(answer.bytes->substr(1, end - 1), answer.bytes->substr(end + 1));
}

std::optional<std::string> try_file_system(const std::function<std::string()>& act) {
  static TimePoint not_before{};
  if (now() < not_before) return std::nullopt;
  const ChildAnswer answer = call_in_child(act, k_file_system_limit, k_most_read);
  if (answer.timed_out) not_before = now() + k_pause;
  return answer.bytes;
}

Fd open_slow_file(const std::string& what, const std::string& path) {
  const SocketPair sockets = make_socket_pair();
  const pid_t child = fork_helper([&] { return open_and_send(sockets.theirs.get(), path); });
  if (child < 0) throw system_failure(what, errno);
  const Fd process = open_pidfd(child);
  const bool answered = wait_until_ready(sockets.ours.get(), now() + k_file_system_limit);
  ReceivedMessage received = receive_message(sockets.ours.get(), k_longest_answer, MSG_DONTWAIT);
  end_helper(child, process);
  if (!received.descriptors.empty()) return std::move(received.descriptors.front());
  if (!answered) throw Error(what + ": " + k_hangs, k_hint);
  if (received.text.empty()) throw Error(what + ": the process that opens it has ended");
  throw Error(what + ": " + received.text.substr(1));
}

std::string replace_slow_file(const std::string& path, std::string_view text) {
  return problem_of([&]() -> std::string {
    const std::string why = replace_file(path, text);
    if (!why.empty()) throw Error(": " + why);
    return {};
  });
}

std::string add_slow_line(const std::string& path, const std::string& line) {
  return problem_of([&]() -> std::string {
    const std::string why = add_line(path, line);
    if (!why.empty()) throw Error(": " + why);
    return {};
  });
}

}  // namespace ddprun::os

#include "os/files/file_writer.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "os/atomic_file.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/process/child.hpp"
#include "os/process/helper_child.hpp"
#include "os/process/serving_child.hpp"
#include "os/system_failure.hpp"

namespace ddprun::os {

namespace {

constexpr const char* k_writer_name = "ddprun-files";
constexpr std::size_t k_merge_limit = std::size_t{16} << 20U;
constexpr Milliseconds k_look_for_reader{50};
constexpr char k_written = 'd', k_waits = 'w';

using Length = std::uint32_t;

std::string with_length(std::string_view text) {
  const Length length = static_cast<Length>(text.size());
  std::string frame(sizeof length, '\0');
  std::memcpy(frame.data(), &length, sizeof length);
  return frame.append(text);
}

// The text of the first frame, which is taken away; nothing while it is not whole.
std::optional<std::string> take_frame(std::string& bytes) {
  Length length = 0;
  if (bytes.size() < sizeof length) return std::nullopt;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (bytes.size() - sizeof length < length) return std::nullopt;
  std::string text = bytes.substr(sizeof length, length);
  bytes.erase(0, sizeof length + length);
  return text;
}

// Ends this process, whatever it waits for, some time after ddprun has gone.
void end_after(int socket) {
  ::pthread_setname_np(::pthread_self(), k_writer_name);
  while (!is_hung_up(socket)) {
    pollfd peer{socket, 0, 0};
    ::poll(&peer, 1, -1);
  }
  std::this_thread::sleep_for(FileWriter::k_last_write);
  ::_exit(1);
}

// In the child.
class Writing {
 public:
  Writing(int socket, const std::string& path, FileWriter::How how, const FileWriter::Merge& merge)
      : socket_(socket), path_(path), how_(how), merge_(merge) {}

  int run() {
    std::string received;
    std::array<char, 65536> part;
    for (;;) {
      while (const auto text = take_frame(received)) answer(k_written, write(*text));
      const ssize_t length = ::read(socket_, part.data(), part.size());
      if (length < 0 && errno == EINTR) continue;
      if (length <= 0) return 0;
      received.append(part.data(), static_cast<std::size_t>(length));
    }
  }

 private:
  void answer(char what, const std::string& problem) const {
    write_whole(socket_, with_length(what + problem));
  }

  std::string write(const std::string& text) {
    if (how_ == FileWriter::How::append || !is_replaceable(path_)) return append(text);
    if (!merge_) return replace_file(path_, text);
    return update_file(path_, k_merge_limit, [&](const std::string& before) { return merge_(before, text); });
  }

  std::string append(const std::string& text) {
    if (const std::string why = open(); !why.empty()) return why;
    const std::string line = (mid_line_ ? "\n" : "") + text;
    const int error = write_waiting(file_, line, [this] { answer(k_waits, k_not_read); });
    mid_line_ = error != 0 && error != EPIPE;
    if (error == EPIPE) file_.close();
    return error == 0 ? "" : describe_errno(error);
  }

  // A reader of a named pipe may come later than ddprun.
  std::string open() {
    bool told = false;
    while (!file_) {
      OpenedFile opened = open_to_append(path_);
      file_ = std::move(opened.file);
      if (!file_ && (!opened.lacks_reader || had_reader_)) return opened.problem;
      if (!file_ && !std::exchange(told, true)) answer(k_waits, opened.problem);
      if (!file_) std::this_thread::sleep_for(k_look_for_reader);
    }
    had_reader_ = true;
    return {};
  }

  int socket_;
  std::string path_;
  FileWriter::How how_;
  const FileWriter::Merge& merge_;
  Fd file_;
  bool mid_line_ = false;
  bool had_reader_ = false;
};

}  // namespace

FileWriter::FileWriter(const std::string& path, How how, Merge merge) {
  SocketPair sockets = make_socket_pair();
  child_ = fork_helper([&] {
    ::prctl(PR_SET_NAME, k_writer_name, 0, 0, 0);
    ::setsid();
    close_own_descriptors(sockets.theirs.get());
    std::thread(end_after, sockets.theirs.get()).detach();
    ::prctl(PR_SET_PDEATHSIG, 0);  // the texts sent are still to be written
    return Writing(sockets.theirs.get(), path, how, merge).run();
  });
  if (child_ < 0) throw system_failure("cannot start the process that writes it", errno);
  process_ = open_pidfd(child_);
  socket_ = std::move(sockets.ours);
}

FileWriter::~FileWriter() { end_helper(child_, process_); }

std::string FileWriter::frame(std::string_view text) { return with_length(text); }

std::optional<FileWriter::News> FileWriter::news() {
  std::array<char, 4096> part;
  for (;;) {
    if (const auto text = take_frame(received_)) return News{text->front() == k_written, text->substr(1)};
    const ssize_t length = ::recv(socket_.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    left_ |= length == 0 || (length < 0 && errno != EAGAIN);
    if (length <= 0) return std::nullopt;
    received_.append(part.data(), static_cast<std::size_t>(length));
  }
}

}  // namespace ddprun::os

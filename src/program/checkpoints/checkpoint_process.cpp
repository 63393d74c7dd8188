#include "checkpoints/checkpoint_process.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoints/flush_folder.hpp"
#include "checkpoints/local_parts.hpp"
#include "checkpoints/other_parts.hpp"
#include "event_loop/handlers.hpp"
#include "os/clock.hpp"
#include "os/descriptors.hpp"
#include "os/private_files.hpp"
#include "os/process/serving_child.hpp"
#include "os/read_file.hpp"
#include "os/status_socket.hpp"
#include "os/system_failure.hpp"

namespace ddprun::checkpoints {

namespace {

using Lock = std::unique_lock<std::mutex>;

constexpr unsigned k_hash_threads = 4;
constexpr std::size_t k_most_ranks = 4096;  // ranks of one agent
constexpr Milliseconds k_look{1000}, k_flush_again{2000};

class CheckpointProcess {
 public:
  CheckpointProcess(const CheckpointSettings& settings, std::string secret, int socket, int door)
      : settings_(settings),
        secret_(std::move(secret)),
        socket_(socket),
        door_(door),
        folder_(settings.place, settings.job, settings.agent),
        flush_(settings.flush, settings.flush_key),
        parts_(folder_.path(), settings.memory,
               [this](const std::string& what, const std::string& hint) { notice(what, hint); }),
        others_(parts_, flush_, settings.launch_key, settings.rate) {}

  [[noreturn]] void run() {
    bool keep = false, usable = false;  // parts of a killed agent may be of another history
    try {
      folder_.open(settings_.keep);
      for (const char* name : {"/replicas", "/removed"}) copies::make_step_folder(folder_.path() + name);
      os::remove_below(folder_.path() + "/removed", false);
      listener_ = listen_for_workers(folder_.path() + "/.socket");
      start_threads();
      usable = true;
    } catch (const Error& error) {
      notice(fmt::format("checkpoints are not kept in memory: {}", error.what()), error.hint());
      tell(Frame::known, "off");
    }
    std::array<char, 65536> buffer;
    std::string received;
    for (ssize_t count = 0; (count = ::read(socket_, buffer.data(), buffer.size())) > 0;) {
      received.append(buffer.data(), static_cast<std::size_t>(count));
      while (const auto frame = event_loop::take_child_frame(received)) {
        if (static_cast<Frame>(frame->kind) == Frame::end) keep = !frame->text.empty();
        if (usable) take(static_cast<Frame>(frame->kind), frame->text);
      }
    }
    if (keep && usable)
      parts_.begin_attempt(0, newest_step(), 0);  // no names for others' files, nothing unfinished
    folder_.leave(keep);
    ::_exit(0);
  }

 private:
  template <class Work>
  static void start(Work work) {
    std::thread(std::move(work)).detach();
  }

  void start_threads() {
    const unsigned hashers = std::clamp(std::thread::hardware_concurrency() / 2, 1U, k_hash_threads);
    for (unsigned i = 0; i < hashers; ++i) start([this] { parts_.hash_files(); });
    if (door_ >= 0) start([this] { net::serve_shards(door_, {settings_.launch_key, secret_}, parts_); });
    start([this] {
      serve_workers(listener_, [this](const void* from, const std::string* line) {
        return line != nullptr ? answer(from, *line) : (parts_.release(from), "");
      });
    });
    start([this] { others_.copy_replicas(); });
    start([this] { flush(); });
    start([this] { look(); });
    start([this] { tell_known(); });
  }

  void tell(Frame kind, std::string_view text = {}) {
    const Lock lock(telling_);
    os::write_whole(socket_, event_loop::make_child_frame(static_cast<char>(kind), text));
  }
  void notice(const std::string& what, const std::string& hint) {
    std::string text;
    staging::put_text(text, what);
    staging::put_text(text, hint);
    tell(Frame::notice, text);
  }

  std::optional<Step> newest_step() const {
    const auto parts = parts_.parts();
    return parts.empty() ? std::nullopt : std::optional(parts.back().step);
  }

  void tell_held() {
    const Lock lock(mutex_);
    held_.parts = parts_.parts();
    if (std::exchange(told_, held_) == held_) return;
    tell(Frame::held, write_record(held_, rendezvous::describe_held));
  }

  void take(Frame kind, const std::string& text) {
    if (kind == Frame::begin) return begin(read_record<Begin>(text, describe_begin));
    if (kind == Frame::order)
      return take_order(read_record<checkpoint::Order>(text, rendezvous::describe_order));
    if (kind != Frame::settle) return;
    parts_.look(true);
    tell_held();
    tell(Frame::settle);
  }

  void begin(const Begin& begin) {
    const auto& restore = begin.restore;
    parts_.begin_attempt(begin.attempt, restore && restore->own ? std::optional(restore->step) : std::nullopt,
                         begin.world);
    others_.begin_attempt(restore);
    {
      const Lock lock(mutex_);
      checkpoint::begin_attempt(held_, begin.attempt, checkpoint::begun_from(restore));
    }
    tell_held();
    tell(Frame::begin);
    if (!restore) return;
    start([this, step = restore->step, begin] {
      others_.fetch_parts(step, begin.ranks);
      tell(Frame::fetched, std::to_string(begin.attempt));
    });
  }

  void take_order(const checkpoint::Order& order) {
    parts_.keep_complete(order.complete);
    others_.copy_from(order.copy_from);
    const Lock lock(mutex_);
    order_ = order;
    changed_.notify_all();
  }

  void tell_known() {
    parts_.look();
    parts_.wait_until_hashed();
    {
      Lock lock(mutex_);
      changed_.wait(lock, [this] { return flush_seen_; });
    }
    tell_held();
    tell(Frame::known);
  }

  // Looks at the folder each second, and tells each change.
  [[noreturn]] void look() {
    for (std::uint64_t version = 0;; tell_held()) {
      const std::uint64_t before = std::exchange(version, parts_.own_parts(version, k_look).version);
      if (before == version) parts_.look();
    }
  }

  // ---- requests of workers

  std::string answer(const void* from, const std::string& line) {
    const std::vector<std::string> words = split(line, ' ');
    try {
      const auto number = [&](std::size_t i) {
        const auto value = parse_integer(words.at(i));
        if (!value || *value < 0) throw Error("a number is needed");
        return *value;
      };
      if (words[0] == "room" && words.size() == 2) {
        const std::string why = parts_.reserve(from, static_cast<std::uint64_t>(number(1)));
        return why.empty() ? "ok" : "no " + why;
      }
      if (words[0] == "saved" && words.size() == 3) {
        parts_.look();
        parts_.release(from);
        const auto parts = parts_.parts();
        const bool there = std::ranges::any_of(parts, [&](const checkpoint::Part& part) {
          return !part.replica && part.step == number(1) && part.rank == number(2);
        });
        return there ? "ok" : "no such part with all its files";
      }
      if (words[0] == "fetch" && words.size() == 3) {
        if (!checkpoint::is_file_name(words[2])) return "no file has such a name";
        others_.fetch(number(1), words[2]);
        return "ok";
      }
      if (words[0] == "files" && words.size() == 2) return "ok " + others_.files(number(1));
    } catch (const std::exception& error) {
      return fmt::format("no {}", error.what());
    }
    return "no such request";
  }

  // ---- the flush folder

  [[noreturn]] void flush() {
    note_published();
    Lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !unflushed().empty() || must_publish(); });
      const int attempt = held_.attempt;
      const checkpoint::Order order = order_;
      const std::vector<int> ranks = unflushed();
      lock.unlock();
      const std::string why = ranks.empty() ? publish(order) : write(order, ranks, attempt);
      tell_held();
      if (!why.empty() && noticed_flush_.insert(why).second)
        notice(fmt::format("a checkpoint is not written to {}: {}", printable(settings_.flush), why), "");
      lock.lock();
      if (!why.empty()) changed_.wait_for(lock, k_flush_again);
    }
  }

  void note_published() {
    const auto newest = settings_.flush.empty() ? std::nullopt : flush_.newest();
    const Lock lock(mutex_);
    held_.published = newest ? std::optional(newest->first) : std::nullopt;
    held_.published_world = newest ? newest->second : 0;
    flush_seen_ = true;
    changed_.notify_all();
  }

  std::vector<int> unflushed() const {
    std::vector<int> ranks;
    if (!order_.flush || settings_.flush.empty()) return ranks;
    for (const int rank : order_.flush_ranks)
      if (held_.flushed != order_.flush || held_.flushed_number != order_.flush_number ||
          std::ranges::find(held_.flushed_ranks, rank) == held_.flushed_ranks.end())
        ranks.push_back(rank);
    return ranks;
  }
  bool must_publish() const {
    return order_.publish && !settings_.flush.empty() && held_.published != order_.publish;
  }

  // Return why it failed; empty: it has not.
  std::string write(const checkpoint::Order& order, const std::vector<int>& ranks, int attempt) {
    try {
      for (const int rank : ranks) {
        flush_.write({*order.flush, order.flush_number}, rank, order.flush_world, parts_);
        const Lock lock(mutex_);
        if (held_.attempt != attempt) return {};
        if (held_.flushed != order.flush || held_.flushed_number != order.flush_number)
          held_.flushed_ranks.clear();
        held_.flushed = order.flush;
        held_.flushed_number = order.flush_number;
        held_.flushed_ranks.push_back(rank);
        std::ranges::sort(held_.flushed_ranks);
      }
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
  std::string publish(const checkpoint::Order& order) {
    try {
      flush_.publish({*order.publish, order.flush_number});
    } catch (const Error& error) {
      return error.what();
    }
    note_published();
    return {};
  }

  const CheckpointSettings& settings_;
  std::string secret_;
  int socket_, door_;
  copies::CheckpointFolder folder_;
  os::Fd listener_;
  FlushFolder flush_;
  LocalParts parts_;
  OtherParts others_;
  std::mutex mutex_, telling_;
  std::condition_variable changed_;
  checkpoint::Held held_, told_;
  checkpoint::Order order_;
  bool flush_seen_ = false;
  std::set<std::string> noticed_flush_;
};

}  // namespace

void describe_begin(rendezvous::Fields& fields, Begin& begin) {
  fields.value("attempt", begin.attempt);
  fields.value("world", begin.world);
  fields.optional("restore", begin.restore, rendezvous::describe_restore);
  fields.value("ranks", begin.ranks, k_most_ranks);
}

void run_checkpoint_process(const CheckpointSettings& settings, const std::string& secret, int socket,
                            int listener) {
  CheckpointProcess(settings, secret, socket, listener).run();
}

namespace {

constexpr int k_backlog = 256, k_most_connections = 512;
constexpr Milliseconds k_line_limit{10000}, k_accept_pause{100};

// In its own thread, until the worker closes it or sends what is no line.
void serve_connection(const os::Fd& connection, const Answer& answer) {
  while (os::wait_until_ready(connection.get(), TimePoint::max())) {
    const auto line = os::receive_line(connection.get(), os::now() + k_line_limit);
    if (!line) return;
    const std::string text = answer(&connection, &*line) + "\n";
    if (!os::send_whole(connection.get(), text, {}, os::now() + k_line_limit)) return;
  }
}

}  // namespace

os::Fd listen_for_workers(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw Error(printable(path) + " is too long for a socket", "--checkpoint-folder has to be shorter");
  std::memcpy(address.sun_path, path.data(), path.size());
  os::Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::unlink(path.c_str());
  if (!listener || ::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), k_backlog) != 0)
    throw os::system_failure("cannot listen at " + printable(path), errno);
  return listener;
}

void serve_workers(const os::Fd& listener, const Answer& answer) {
  static std::atomic<int> connections = 0;
  while (true) {
    auto connection = std::make_shared<os::Fd>(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!*connection) {
      std::this_thread::sleep_for(k_accept_pause);
      continue;
    }
    if (connections >= k_most_connections || !os::is_of_this_user(connection->get())) continue;
    ++connections;
    try {
      std::thread([connection, &answer] {
        serve_connection(*connection, answer);
        answer(connection.get(), nullptr);
        --connections;
      }).detach();
    } catch (const std::system_error&) {
      --connections;
    }
  }
}

}  // namespace ddprun::checkpoints

#include "net/staging/stage_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "net/staging/sealed_door.hpp"
#include "staging/manifest.hpp"

namespace ddprun::net {

namespace {

// Waits until `enough` holds; false when the other one does not listen any more, or there is a failure, which
// it is told.
template <class Enough>
bool wait_for(const StagedItem& item, SealedSocket& socket, StagedItem::View& view, const Enough& enough) {
  while (true) {
    view = item.wait(k_stage_sign_of_life, enough);
    if (!view.failure.empty()) return socket.send(StagePiece::failed, view.failure), false;
    if (enough(view)) return true;
    if (!socket.send(StagePiece::keep_waiting)) return false;
  }
}

void serve_list(const StagedItem& item, SealedSocket& socket) {
  StagedItem::View view;
  if (!wait_for(item, socket, view, [](const StagedItem::View& each) { return each.list != nullptr; }))
    return;
  std::string_view rest = *view.list;
  while (!rest.empty()) {
    if (!socket.send(StagePiece::list, rest.substr(0, k_stage_part))) return;
    rest.remove_prefix(std::min(rest.size(), k_stage_part));
  }
  socket.send(StagePiece::end);
}

void serve_contents(const StagedItem& item, std::uint64_t offset, const OpenStaged& open,
                    SealedSocket& socket) {
  StagedItem::View view;
  ReadStaged read;
  while (wait_for(item, socket, view, [&](const StagedItem::View& each) {
    return each.available > offset || !each.digest.empty();
  })) {
    if (view.available <= offset) return void(socket.send(StagePiece::end, view.digest));
    if (!read) read = open(view);
    std::string text;
    staging::put_number(text, view.available);
    const std::string bytes = read(
        offset, static_cast<std::size_t>(std::min<std::uint64_t>(k_stage_part, view.available - offset)));
    offset += bytes.size();
    if (!socket.send(StagePiece::contents, text + bytes)) return;
  }
}

void converse(const std::vector<StagedItem>& items, const OpenStaged& open, SealedSocket& socket) {
  const auto asked = socket.receive();
  if (!asked) return;
  staging::Parts parts(asked->text);
  const std::uint64_t number = parts.number();
  if (number >= items.size()) return;
  const StagedItem& item = items[number];
  if (asked->kind == StagePiece::list_wanted) return serve_list(item, socket);
  if (asked->kind != StagePiece::contents_wanted) return;
  serve_contents(item, parts.number(), open, socket);
}

}  // namespace

void serve_staged(int listener, const SealedSocket::Proof& proof, std::vector<StagedItem>& items,
                  OpenStaged open) {
  serve_sealed(listener, proof, k_most_served, [&](SealedSocket& socket) { converse(items, open, socket); });
}

template <class Change>
void StagedItem::change(const Change& change) {
  {
    const std::scoped_lock lock(mutex_);
    change(view_);
  }
  changed_.notify_all();
}

void StagedItem::begin(std::shared_ptr<const staging::Manifest> manifest,
                       std::shared_ptr<const std::string> list) {
  change([&](View& view) {
    view.manifest = std::move(manifest);
    view.list = std::move(list);
  });
}

void StagedItem::read_at(std::string root, std::string originals) {
  change([&](View& view) {
    view.root = std::move(root);
    view.originals = std::move(originals);
  });
}

void StagedItem::advance(std::uint64_t available) {
  change([&](View& view) { view.available = available; });
}

void StagedItem::complete(std::string digest) {
  change([&](View& view) {
    view.available = staging::content_size(*view.manifest);
    view.digest = std::move(digest);
  });
}

void StagedItem::fail(std::string why) {
  change([&](View& view) { view.failure = std::move(why); });
}

StagedItem::View StagedItem::view() const {
  const std::scoped_lock lock(mutex_);
  return view_;
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr int k_rounds = 2;  // without a byte from any source
constexpr Milliseconds k_pause{500};
constexpr std::size_t k_longest_list = std::size_t{1} << 30U;
// Least progress of a source that has more to give: less in such a time is slow.
constexpr Milliseconds k_measured{10000};
constexpr std::uint64_t k_slow = std::uint64_t{20} << 20U;

// Pace of a source while it had more to give.
class Pace {
 public:
  bool is_slow(std::uint64_t came, bool has_more) {
    const auto now = Clock::now();
    if (!has_more) {
      since_ = now;
      bytes_ = 0;
      return false;
    }
    bytes_ += came;
    if (now - since_ < k_measured) return false;
    const bool slow = bytes_ < k_slow;
    since_ = now;
    bytes_ = 0;
    return slow;
  }

 private:
  Clock::time_point since_ = Clock::now();
  std::uint64_t bytes_ = 0;
};

}  // namespace

// Moves to the next source that has not refused; false if all have.
bool StageClient::move_on() {
  for (std::size_t tried = 0; tried < refused_.size(); ++tried) {
    current_ = (current_ + 1) % refused_.size();
    if (!refused_[current_]) return true;
  }
  return false;
}

template <class Talk>
bool StageClient::ask_each(const Talk& talk) {
  std::size_t in_vain = 0;
  if (refused_.empty() || (refused_[current_] && !move_on())) return false;
  while (in_vain < k_rounds * refused_.size()) {
    progressed_ = false;
    SealedSocket socket;
    Ended ended = connect(socket);
    if (ended == Ended::done) ended = talk(socket);
    if (ended == Ended::done) return true;
    if (settings_.stop()) return why_ = "the job ends", false;
    if (ended == Ended::refused) refused_[current_] = true;
    in_vain = progressed_ || ended == Ended::busy ? 0 : in_vain + 1;
    const std::string before = host();
    if (!move_on()) return false;
    settings_.tell(fmt::format("{}; asking {} instead of {}", why_, host(), before));
    if (ended != Ended::slow) std::this_thread::sleep_for(k_pause);
  }
  return false;
}

StageClient::Ended StageClient::connect(SealedSocket& socket) {
  const staging::Server& source = settings_.sources[current_];
  why_ = source.host + " sends no staged files";
  const std::size_t slash = source.door.find('/');
  if (slash == std::string::npos || !parse_integer(source.door.substr(0, slash))) return Ended::refused;
  why_ = socket.connect(source, settings_.launch_key);
  return why_.empty() ? Ended::done : Ended::lost;
}

StageClient::Ended StageClient::end_with(const std::optional<SealedSocket::Piece>& piece) {
  if (piece && piece->kind == StagePiece::busy)
    return why_ = host() + " is busy with other hosts", Ended::busy;
  if (piece && piece->kind == StagePiece::failed) return why_ = printable(piece->text), Ended::refused;
  return why_ = "the connection to " + host() + " has ended", Ended::lost;
}

StageClient::Ended StageClient::read_list(SealedSocket& socket, std::size_t item, std::string& list) {
  std::string asked;
  staging::put_number(asked, item);
  list.clear();
  socket.send(StagePiece::list_wanted, asked);
  while (true) {
    const auto piece = socket.receive();
    if (piece && piece->kind == StagePiece::end) return Ended::done;
    if (settings_.stop()) return Ended::stopped;
    if (piece && piece->kind == StagePiece::keep_waiting) continue;
    if (!piece || piece->kind != StagePiece::list || list.size() > k_longest_list) return end_with(piece);
    list += piece->text;
  }
}

void StageClient::distrust() {
  refused_[current_] = true;
  why_ = host() + " sent contents that do not match their hash";
}

std::optional<std::string> StageClient::get_list(std::size_t item) {
  std::string list;
  refused_.assign(refused_.size(), false);
  const bool got = ask_each([&](SealedSocket& socket) { return read_list(socket, item, list); });
  return got ? std::optional(std::move(list)) : std::nullopt;
}

std::optional<std::string> StageClient::get_contents(std::size_t item, std::uint64_t offset,
                                                     const std::function<void(std::string_view)>& take) {
  std::string digest;
  std::set<std::size_t> known_slow;
  const auto talk = [&](SealedSocket& socket) {
    std::string asked;
    staging::put_number(asked, item);
    staging::put_number(asked, offset);
    socket.send(StagePiece::contents_wanted, asked);
    Pace pace;
    while (true) {
      const auto piece = socket.receive();
      if (piece && piece->kind == StagePiece::end) return digest = piece->text, Ended::done;
      if (settings_.stop()) return Ended::stopped;
      if (piece && piece->kind == StagePiece::keep_waiting) continue;
      if (!piece || piece->kind != StagePiece::contents) return end_with(piece);
      staging::Parts parts(piece->text);
      const std::uint64_t available = parts.number();
      const std::string_view bytes = std::string_view(piece->text).substr(8);
      take(bytes);
      offset += bytes.size();
      progressed_ = true;
      const bool slow = pace.is_slow(bytes.size(), available > offset);
      if (!slow || refused_.size() < 2 || !known_slow.insert(current_).second) continue;
      return why_ = host() + " is slow", Ended::slow;
    }
  };
  return ask_each(talk) ? std::optional(digest) : std::nullopt;
}

}  // namespace ddprun::net

#include "net/staging/stage_server.hpp"

#include <algorithm>
#include <utility>

#include "net/staging/sealed_door.hpp"

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

}  // namespace ddprun::net

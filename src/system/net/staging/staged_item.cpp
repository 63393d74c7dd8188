#include "net/staging/staged_item.hpp"

#include <utility>

namespace ddprun::net {

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

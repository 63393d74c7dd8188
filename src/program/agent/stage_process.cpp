#include "agent/stage_process.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "copies/stage_folder.hpp"
#include "copies/stage_reader.hpp"
#include "copies/stage_writer.hpp"
#include "event_loop/handlers.hpp"
#include "facts/proc_text.hpp"
#include "net/staging/stage_exchange.hpp"
#include "os/descriptors.hpp"
#include "os/private_files.hpp"
#include "staging/manifest.hpp"
#include "staging/rewrite.hpp"

namespace ddprun::agent {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds k_look_again{50};  // at a folder that another process fills
constexpr std::chrono::seconds k_last_part{5};         // at the end, for transfers in progress
constexpr std::size_t k_identity = 16;                 // digits taken of the digest

std::string digest_of(std::string_view bytes) {
  copies::StageDigest digest;
  digest.add(bytes);
  return digest.text();
}

class StageProcess {
 public:
  StageProcess(StageOrder order, int socket)
      : order_(std::move(order)),
        socket_(socket),
        items_(order_.paths.size()),
        client_({order_.sources, order_.launch_key, [this](const std::string& what) { detail(what); },
                 [this] { return ends_.load(); }}) {}

  [[noreturn]] void run() {
    if (order_.listener >= 0) std::thread([this] { serve(); }).detach();
    std::thread worker([this] { work(); });
    char byte = 0;
    while (::read(socket_, &byte, 1) > 0) {
    }
    ends_ = true;
    const auto limit = Clock::now() + k_last_part;
    while (!worked_ && Clock::now() < limit) std::this_thread::sleep_for(k_look_again);
    if (!worked_) ::_exit(1);  // the call waits for a file system; the next ddprun removes what is there
    for (const auto& folder : folders_) folder->leave(order_.keep);
    ::_exit(0);
  }

 private:
  void tell(StageNews kind, std::string_view text) {
    os::write_whole(socket_, event_loop::make_child_frame(static_cast<char>(kind), text));
  }
  void detail(const std::string& what) { tell(StageNews::detail, what); }

  void serve() {
    net::serve_staged(order_.listener, {order_.launch_key, order_.secret}, items_,
                      [](const net::StagedItem::View& view) -> net::ReadStaged {
                        const auto reader = std::make_shared<copies::ContentReader>(view.root, view.originals,
                                                                                    *view.manifest);
                        return [reader, manifest = view.manifest](std::uint64_t offset, std::size_t most) {
                          return reader->read(offset, most);
                        };
                      });
  }

  void work() {
    std::vector<Staged> results;
    for (std::size_t i = 0; i < order_.paths.size(); ++i) {
      Staged staged;
      try {
        staged = stage(i);
      } catch (const std::exception& error) {
        staged.failure = error.what();
        staged.said_elsewhere = client_.is_refused();
      }
      if (!staged.failure.empty()) {
        if (!serves_source_) items_[i].fail(fmt::format("{} has no copy: {}", order_.host, staged.failure));
        staged.mapping.copy = order_.paths[i];
        staged.said_elsewhere = staged.said_elsewhere || is_further_agent();
      } else {
        mappings_.push_back(staged.mapping);
      }
      serves_source_ = false;
      if (staged.mapping.sources.empty()) staged.mapping.sources = {order_.paths[i]};
      results.push_back(std::move(staged));
    }
    tell(StageNews::results, encode_staged(results));
    worked_ = true;
  }

  // Reports whether this is a further agent of its host, whose first agent stages for all of them.
  bool is_further_agent() const { return !is_root() && order_.sources.front().host == order_.host; }
  bool is_root() const { return order_.sources.empty(); }

  std::shared_ptr<const std::string> get_list(std::size_t item, Staged& staged) {
    if (is_root())
      return std::make_shared<const std::string>(
          staging::encode(copies::read_stage_source(order_.paths[item])));
    auto list = client_.get_list(item);
    if (list) return std::make_shared<const std::string>(std::move(*list));
    staged.failure = client_.why();
    staged.said_elsewhere = client_.is_refused();
    return nullptr;
  }

  // Waits until the first agent of the host has fetched the copy, which the others use. An agent that locked
  // the folder before would wait for the first, which waits for the folder. The first confirms behind the
  // last byte that the copy is whole.
  bool wait_for_first_agent(std::size_t item, const staging::Manifest& manifest, Staged& staged) {
    if (!is_further_agent()) return true;
    if (client_.get_contents(item, staging::content_size(manifest), [](std::string_view) {})) return true;
    staged.failure = client_.why();
    staged.said_elsewhere = true;
    return false;
  }

  Staged stage(std::size_t item) {
    const auto began = Clock::now();
    Staged staged;
    const auto list = get_list(item, staged);
    if (!list) return staged;
    const auto manifest = std::make_shared<const staging::Manifest>(staging::decode(*list));
    staged.mapping.sources = {manifest->source};
    if (manifest->real != manifest->source) staged.mapping.sources.push_back(manifest->real);
    items_[item].begin(manifest, list);
    if (!wait_for_first_agent(item, *manifest, staged)) return staged;
    std::string identity = *list;
    for (const staging::Mapping& mapping : mappings_) identity += "\n" + mapping.copy;
    const std::string name =
        staging::copy_folder(manifest->source, digest_of(identity).substr(0, k_identity));
    const staging::ChosenPlace place = find_place(*manifest, name);
    if (place.folder.empty()) return pass_on_alone(item, *manifest, place.problem);
    const bool reused = fill(item, *manifest, place.folder + "/" + name, staged);
    staged.done =
        fmt::format("{}, {}, {} in {:.1f} s", facts::describe_bytes(staging::content_size(*manifest)),
                    count_of(static_cast<std::int64_t>(staging::count_files(*manifest)), "file"),
                    reused      ? "found on " + order_.host
                    : is_root() ? "read on " + order_.host
                                : "from " + client_.host(),
                    std::chrono::duration<double>(Clock::now() - began).count());
    return staged;
  }

  // Returns the place where this copy is already, else one with room; kept copies are removed to make room.
  staging::ChosenPlace find_place(const staging::Manifest& manifest, const std::string& name) {
    const std::string own = "/" + staging::user_folder(::geteuid());
    if (order_.make_place) os::make_private_folder(order_.places.front());  // else the look says why not
    for (int attempt = 0;; ++attempt) {
      std::vector<staging::PlaceFacts> facts;
      for (const std::string& place : order_.places) {
        facts.push_back(copies::look_at_place(place));
        if (!facts.back().problem.empty()) continue;
        copies::sweep_stage_folders(place + own, name, attempt > 0);
        std::error_code ignored;
        if (std::filesystem::exists(place + own + "/" + name, ignored)) return {place + own, {}};
        facts.back() = copies::look_at_place(place);
      }
      staging::ChosenPlace chosen =
          staging::choose_place(facts, staging::content_size(manifest), staging::is_executed(manifest));
      if (!chosen.folder.empty()) chosen.folder += own;
      if (!chosen.folder.empty() || attempt > 0) return chosen;
    }
  }

  // Passes the source on without a copy here: the root has no room for itself, but the other hosts may have.
  Staged pass_on_alone(std::size_t item, const staging::Manifest& manifest, const std::string& problem) {
    Staged staged;
    staged.failure = problem;
    staged.no_place = true;
    if (!is_root() || order_.listener < 0) return staged;
    serves_source_ = true;
    items_[item].read_at(manifest.real, "");
    copies::StageDigest digest;
    std::uint64_t at = 0;
    const auto take = [&](std::string_view bytes) {
      digest.add(bytes);
      items_[item].advance(at += bytes.size());
    };
    try {
      copies::stream_contents(manifest.real, manifest, take, [this] { return ends_.load(); });
      items_[item].complete(digest.text());
    } catch (const Error& error) {
      items_[item].fail(error.what());
    }
    return staged;
  }

  // Fills the copy. True if the copy was there already. Throws Error, and leaves nothing then.
  bool fill(std::size_t item, const staging::Manifest& manifest, const std::string& path, Staged& staged) {
    auto folder = std::make_unique<copies::StageFolder>(path);
    const std::string name = staging::name_of(manifest.source), copy = folder->copy(name);
    const bool archive = staging::is_archive(manifest.source);
    const std::string unpacked = folder->copy("unpacked");
    staged.mapping.copy = archive ? unpacked : copy;
    bool reused = false;
    try {
      while (true) {
        if (ends_) throw Error("the job ends");
        const auto taken = folder->take();
        if (taken == copies::StageFolder::Taken::busy) {
          std::this_thread::sleep_for(k_look_again);
          continue;
        }
        reused = true;
        if (taken == copies::StageFolder::Taken::alone) {
          reused = check_kept(manifest, *folder, copy);
          if (!reused) write_anew(item, manifest, *folder, copy);
          if (archive) unpack_anew(copy, unpacked);
          auto mappings = mappings_;
          mappings.push_back(staged.mapping);
          if (!archive) copies::rewrite_copy(copy, folder->originals(), manifest, mappings);
          if (!folder->share()) continue;
        }
        break;
      }
    } catch (...) {
      folder->leave(false);
      throw;
    }
    items_[item].read_at(copy, folder->originals());
    items_[item].complete(folder->completed().value_or(""));
    folders_.push_back(std::move(folder));
    return reused;
  }

  // Checks a kept copy by reading all of it again.
  bool check_kept(const staging::Manifest& manifest, const copies::StageFolder& folder,
                  const std::string& copy) {
    const auto digest = folder.completed();
    if (!digest || !copies::is_like(copy, manifest)) return false;
    try {
      copies::ContentReader reader(copy, folder.originals(), manifest);
      copies::StageDigest found;
      const std::uint64_t size = staging::content_size(manifest);
      for (std::uint64_t at = 0; at < size && !ends_;) {
        const std::string bytes = reader.read(at, net::k_stage_part);
        found.add(bytes);
        at += bytes.size();
      }
      if (found.text() == *digest) return true;
    } catch (const Error&) {  // the kept copy is damaged
    }
    detail(fmt::format("the copy in {} is damaged; copying it again", folder.path()));
    return false;
  }

  void write_anew(std::size_t item, const staging::Manifest& manifest, const copies::StageFolder& folder,
                  const std::string& copy) {
    for (int attempt = 0;; ++attempt) {
      folder.empty();
      std::error_code ignored;
      std::filesystem::create_directory(folder.originals(), ignored);
      copies::StageWriter writer(copy, manifest);
      items_[item].read_at(copy, folder.originals());
      copies::StageDigest digest;
      const std::string told = receive(item, manifest, writer, digest);
      const std::string found = digest.text();
      if (told.empty() || told == found) {
        auto mappings = mappings_;
        mappings.push_back({{manifest.source, manifest.real}, copy});
        writer.finish(mappings);
        folder.mark_complete(found);
        return;
      }
      client_.distrust();
      detail(fmt::format("the contents that {} sent do not match their hash", client_.host()));
      items_[item].advance(0);
      if (attempt > 0) throw Error("the copied contents do not match their hash");
    }
  }

  // Receives the contents. Returns the digest that the source sends; empty if this host reads it.
  std::string receive(std::size_t item, const staging::Manifest& manifest, copies::StageWriter& writer,
                      copies::StageDigest& digest) {
    std::uint64_t at = 0;
    auto told = Clock::now();
    const std::string all = facts::describe_bytes(staging::content_size(manifest));
    const auto take = [&](std::string_view bytes) {
      if (ends_) throw Error("the job ends");
      writer.write(bytes);
      digest.add(bytes);
      items_[item].advance(at += bytes.size());
      if (Clock::now() - told < order_.progress) return;
      told = Clock::now();
      tell(StageNews::progress,
           fmt::format("staging {}: {} of {}", printable(manifest.source), facts::describe_bytes(at), all));
    };
    if (is_root()) return copies::stream_contents(manifest.real, manifest, take, [] { return false; }), "";
    auto known = client_.get_contents(item, 0, take);
    if (!known) throw Error(client_.why());
    return std::move(*known);
  }

  static void unpack_anew(const std::string& archive, const std::string& folder) {
    const copies::StageFolder before(folder);
    before.empty();
    std::error_code error;
    std::filesystem::create_directory(folder, error);
    const std::string problem = copies::unpack(archive, folder);
    if (!problem.empty()) throw Error(fmt::format("it cannot be unpacked: {}", problem));
  }

  StageOrder order_;
  int socket_;
  std::vector<net::StagedItem> items_;
  net::StageClient client_;
  std::vector<staging::Mapping> mappings_;  // mappings of the paths that are done
  std::vector<std::unique_ptr<copies::StageFolder>> folders_;
  std::atomic<bool> ends_ = false, worked_ = false;
  bool serves_source_ = false;  // this path, without a copy
};

}  // namespace

std::string encode_staged(const std::vector<Staged>& staged) {
  std::string text;
  for (const Staged& each : staged) {
    staging::put_number(text, each.mapping.sources.size());
    for (const std::string& source : each.mapping.sources) staging::put_text(text, source);
    for (const std::string& part : {each.mapping.copy, each.failure, each.done})
      staging::put_text(text, part);
    for (const bool flag : {each.said_elsewhere, each.no_place}) staging::put_number(text, flag ? 1 : 0);
  }
  return text;
}

std::vector<Staged> decode_staged(std::string_view text) {
  std::vector<Staged> staged;
  staging::Parts parts(text);
  while (!parts.at_end()) {
    Staged& each = staged.emplace_back();
    for (std::uint64_t left = parts.number(); left > 0; --left) each.mapping.sources.push_back(parts.text());
    each.mapping.copy = parts.text();
    each.failure = parts.text();
    each.done = parts.text();
    each.said_elsewhere = parts.number() != 0;
    each.no_place = parts.number() != 0;
  }
  return staged;
}

void run_stage_process(StageOrder order, int socket) { StageProcess(std::move(order), socket).run(); }

}  // namespace ddprun::agent

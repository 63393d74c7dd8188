#include "checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "facts/json_reader.hpp"
#include "staging/manifest.hpp"

namespace ddprun::checkpoint {

namespace {

constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 50U;
constexpr std::size_t k_most_files = 20000, k_longest_name = 200, k_hash_digits = 64;
constexpr int k_most_ranks = 1 << 24;
constexpr std::string_view k_digits = "0123456789";

// Parses a number without leading zeros.
std::optional<std::int64_t> parse_plain(std::string_view text, std::string_view prefix,
                                        std::string_view suffix) {
  if (!text.starts_with(prefix) || !text.ends_with(suffix) || text.size() <= prefix.size() + suffix.size())
    return std::nullopt;
  text = text.substr(prefix.size(), text.size() - prefix.size() - suffix.size());
  if ((text.front() == '0' && text.size() > 1) || text.find_first_not_of(k_digits) != text.npos)
    return std::nullopt;
  return parse_integer(text);
}

std::optional<int> parse_rank(std::string_view text, std::string_view suffix) {
  const auto rank = parse_plain(text, "rank-", suffix);
  return rank && std::in_range<int>(*rank) ? std::optional(static_cast<int>(*rank)) : std::nullopt;
}

File read_file_entry(facts::JsonReader& reader, const facts::Json& value, const std::string& where) {
  File file;
  if (value.is_object()) {
    facts::JsonReader entry = reader.element(value, where);
    std::int64_t bytes = 0;
    entry.read_number("bytes", bytes, std::int64_t{0}, static_cast<std::int64_t>(k_most_bytes));
    file.bytes = static_cast<std::uint64_t>(bytes);
    entry.read("blake2b", file.blake2b);
    const bool hash = file.blake2b.size() == k_hash_digits &&
                      file.blake2b.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!entry.has("bytes") || !hash) reader.fail(where, "needs bytes and blake2b");
    entry.finish();
  } else {
    const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= k_most_bytes;
    if (!fits) reader.fail(where, "is no number of bytes");
    file.bytes = value.get<std::uint64_t>();
  }
  return file;
}

}  // namespace

std::string render(const Manifest& manifest) {
  nlohmann::ordered_json json{{"world", manifest.world}, {"files", nlohmann::ordered_json::object()}};
  for (const File& file : manifest.files) {
    nlohmann::ordered_json& entry = json["files"][file.name];
    if (file.blake2b.empty())
      entry = file.bytes;
    else
      entry = {{"bytes", file.bytes}, {"blake2b", file.blake2b}};
  }
  return write_json_text(json);
}

Manifest parse_manifest(const std::string& json) {
  const facts::JsonSource source{"the manifest of a checkpoint", {}};
  if (json.size() > k_longest_manifest) source.refuse("it is too long");
  const facts::Json value = facts::parse_strictly(json, source);
  facts::JsonReader reader(value, source, "");
  Manifest manifest;
  reader.read_number("world", manifest.world, 1, k_most_ranks);
  const bool has_files = reader.has("files");
  std::uint64_t bytes = 0;
  reader.each_member("files", [&](const std::string& name, const facts::Json& entry, const auto& where) {
    if (!is_file_name(name)) reader.fail(where, "is no name of a file");
    manifest.files.push_back(read_file_entry(reader, entry, where));
    manifest.files.back().name = name;
    bytes += manifest.files.back().bytes;
    if (bytes > k_most_bytes || manifest.files.size() > k_most_files) reader.fail("files", "are too many");
  });
  if (manifest.world == 0 || !has_files) source.refuse("it needs world and files");
  reader.finish();
  std::ranges::sort(manifest.files, {}, &File::name);
  return manifest;
}

std::uint64_t size_of(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const File& file : manifest.files) bytes += file.bytes;
  return bytes;
}

bool is_file_name(std::string_view name) {
  if (name == ".metadata") return true;
  return !name.empty() && name.size() <= k_longest_name && name.front() != '.' &&
         !parse_manifest_name(name) && std::ranges::all_of(name, [](char letter) {
           return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                  (letter >= '0' && letter <= '9') || letter == '.' || letter == '_' || letter == '-';
         });
}

std::string step_folder(std::int64_t step) { return fmt::format("step-{}", step); }
std::optional<std::int64_t> parse_step(std::string_view name) { return parse_plain(name, "step-", ""); }
std::string manifest_name(int rank) { return fmt::format("rank-{}.manifest", rank); }
std::optional<int> parse_manifest_name(std::string_view name) { return parse_rank(name, ".manifest"); }
std::optional<int> parse_lone_file(std::string_view name) {
  if (!is_file_name(name)) return std::nullopt;
  return parse_rank(name.substr(0, name.find('.')), "");
}

std::string encode(const std::vector<Offer>& offers) {
  std::string bytes;
  for (const Offer& offer : offers) {
    staging::put_number(bytes, static_cast<std::uint64_t>(offer.step));
    staging::put_number(bytes, static_cast<std::uint64_t>(offer.rank));
    staging::put_text(bytes, render(offer.manifest));
  }
  return bytes;
}

std::vector<Offer> decode_offers(std::string_view bytes) {
  std::vector<Offer> offers;
  for (staging::Parts parts(bytes); !parts.at_end();) {
    const std::uint64_t step = parts.number(), rank = parts.number();
    if (!std::in_range<std::int64_t>(step) || rank >= k_most_ranks)
      throw Error("the list of another node's checkpoints is damaged");
    offers.push_back({static_cast<std::int64_t>(step), static_cast<int>(rank), parse_manifest(parts.text())});
  }
  return offers;
}

std::string render_parts(const std::map<int, Manifest>& parts) {
  nlohmann::ordered_json json{{"world", parts.empty() ? 0 : parts.begin()->second.world},
                              {"parts", nlohmann::ordered_json::object()}};
  for (const auto& [rank, manifest] : parts) {
    nlohmann::ordered_json& files = json["parts"][std::to_string(rank)];
    for (const File& file : manifest.files) files[file.name] = file.bytes;
  }
  return write_json_text(json);
}

}  // namespace ddprun::checkpoint

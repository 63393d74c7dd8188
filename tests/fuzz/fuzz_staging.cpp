// The list of files that another host sends (--stage): refused, or the same when it is written again, with no
// path that leads out of the copy. And texts in which paths are replaced.
#include "promise.hpp"
#include "staging/rewrite.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

void check_list(std::string_view bytes) {
  staging::Manifest manifest;
  try {
    manifest = staging::decode(bytes);
  } catch (const Error&) {
    return;
  }
  require(staging::encode(manifest) == bytes);
  for (const staging::Entry& entry : manifest.entries) {
    require(!entry.path.starts_with('/') && entry.path.find('\0') == std::string::npos);
    require(("/" + entry.path + "/").find("/../") == std::string::npos);
  }
  require(staging::content_offsets(manifest).size() == manifest.entries.size() + 1);
}

void check_text(std::string_view text) {
  require(staging::map_text(text, {{{"/a"}, "/a"}, {{"/a/b"}, "/a/b"}}) == text);
  const std::string path(text);
  require(staging::map_path_list(path, {{{"/a"}, "/a"}}) == path);
  require(staging::plain_path(staging::plain_path(path)) == staging::plain_path(path));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_list(bytes);
  check_text(bytes);
  return 0;
}

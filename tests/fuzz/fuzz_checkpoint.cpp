// Manifests of checkpoints, which workers write, and lists of parts, which other hosts send: refused, or the
// same when they are written again, with no name that leads out of the folder.
#include "checkpoint/manifest.hpp"
#include "promise.hpp"

using namespace ddprun;
using fuzz::require;

namespace {

void check_manifest(const std::string& json) {
  checkpoint::Manifest manifest;
  try {
    manifest = checkpoint::parse_manifest(json);
  } catch (const Error&) {
    return;
  }
  require(checkpoint::parse_manifest(checkpoint::render(manifest)) == manifest);
  require(manifest.world > 0 && !manifest.files.empty());
  for (const checkpoint::File& file : manifest.files)
    require(file.name.find('/') == std::string::npos &&
            (file.name.front() != '.' || file.name == ".metadata"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  check_manifest(bytes);
  try {
    const auto offers = checkpoint::decode_offers(bytes);
    require(checkpoint::decode_offers(checkpoint::encode(offers)) == offers);
  } catch (const Error&) {
  }
  if (const auto step = checkpoint::parse_step(bytes)) require(checkpoint::step_folder(*step) == bytes);
  if (const auto rank = checkpoint::parse_manifest_name(bytes))
    require(checkpoint::manifest_name(*rank) == bytes);
  return 0;
}

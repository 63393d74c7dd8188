#include "ddprun/supervise/known_failures.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include "ddprun/base/text.hpp"

namespace ddprun {

namespace {

struct KnownFailure {
  std::string_view text;  // a part of one of the last lines, or of the error file
  std::size_t lines;      // of how many lines that are not empty, counted from the end
  int least_world_size;   // the smallest world in which this is the usual cause
  const char* hint;
};

constexpr std::size_t k_all = std::numeric_limits<std::size_t>::max();

// The first that fits counts. ProcessRaisedException and ProcessExitedException:
// torch/multiprocessing/spawn.py. "without an active exception": std::terminate() from a std::thread that
// gloo has not joined.
constexpr const char* k_spawn_hint =
    "if the script starts ranks itself (torch.multiprocessing.spawn), ddprun must not start several: give "
    "--nproc-per-node 1, or leave out spawn() and take RANK, LOCAL_RANK and WORLD_SIZE from the environment";
constexpr KnownFailure k_known[] = {
    {"ProcessRaisedException", k_all, 2, k_spawn_hint},
    {"ProcessExitedException", k_all, 2, k_spawn_hint},
    {"terminate called without an active exception", 1, 1,
     "torch aborts when Python exits while a thread of gloo still holds the tensors of a collective: call "
     "torch.distributed.destroy_process_group() at the end of the script, release the DDP model before, and "
     "import "
     "torch.distributed.nn before init_process_group(), since an optimizer that imports it later keeps the "
     "group"},
};

bool fits(const KnownFailure& known, const std::vector<std::string>& lines) {
  std::size_t seen = 0;
  for (auto line = lines.rbegin(); line != lines.rend() && seen < known.lines; ++line) {
    if (line->find(known.text) != std::string::npos) return true;
    if (!trim(*line).empty()) ++seen;
  }
  return false;
}

}  // namespace

std::string find_failure_hint(const Failure& failure, int world_size) {
  const std::vector<std::string> message = split(failure.message, '\n');
  const auto* const found =
      std::find_if(std::begin(k_known), std::end(k_known), [&](const KnownFailure& known) {
        return world_size >= known.least_world_size &&
               (fits(known, failure.last_lines) || fits(known, message));
      });
  return found == std::end(k_known) ? std::string() : found->hint;
}

}  // namespace ddprun

#include "os/libraries/pmix_client.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/text.hpp"
#include "os/libraries/library_function.hpp"

namespace ddprun::os {

namespace {

// The part of pmix_common.h that is used: the same from 2.2 to 6.1, all libpmix.so.2.
constexpr std::uint16_t k_string = 3;
constexpr std::uint16_t k_uint16 = 13;
constexpr std::uint16_t k_uint32 = 14;
constexpr std::uint8_t k_scope_global = 3;
constexpr std::uint32_t k_rank_wildcard = 0xfffffffe;
constexpr const char* k_key = "ddprun";

struct Process {
  std::array<char, 256> space;
  std::uint32_t rank;
};

// The union begins at 8 bytes; the library's own has 24 in 4.2 and may grow.
struct Value {
  std::uint16_t type;
  union {
    char* string;
    std::uint32_t number;
    std::uint16_t small_number;
    std::array<unsigned char, 120> room;
  } data;
};
static_assert(offsetof(Value, data) == 8);

struct PmixLibrary {
  int (*init)(Process*, void*, std::size_t) = nullptr;
  int (*put)(std::uint8_t, const char*, Value*) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const Process*, std::size_t, const void*, std::size_t) = nullptr;
  int (*get)(const Process*, const char*, const void*, std::size_t, Value**) = nullptr;
  int (*finalize)(const void*, std::size_t) = nullptr;
  const char* (*error_text)(int) = nullptr;

  // Loads the library. Returns an empty string, or the reason of a failure.
  std::string load(const std::string& name) {
    void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);  // global, for its plug-ins
    if (handle == nullptr) return fmt::format("libpmix cannot be loaded: {}", ::dlerror());
    const bool whole = find_function(handle, "PMIx_Init", init) && find_function(handle, "PMIx_Put", put) &&
                       find_function(handle, "PMIx_Commit", commit) &&
                       find_function(handle, "PMIx_Fence", fence) && find_function(handle, "PMIx_Get", get) &&
                       find_function(handle, "PMIx_Finalize", finalize) &&
                       find_function(handle, "PMIx_Error_string", error_text);
    return whole ? std::string() : fmt::format("{} lacks a function of libpmix", name);
  }
};

class Client {
 public:
  explicit Client(const PmixLibrary& library) : library_(library) {}

  facts::KeyValueAnswer key_value_space(const std::optional<std::string>& value, bool all_take_part) {
    if (!good(library_.init(&self_, nullptr, 0), "PMIx_Init")) return failed();
    facts::KeyValueAnswer answer = key_value_space_initialized(value, all_take_part);
    library_.finalize(nullptr, 0);
    return answer;
  }

  std::string ask_place() {
    if (!good(library_.init(&self_, nullptr, 0), "PMIx_Init")) return {};
    const auto size = number("pmix.job.size");
    const auto nodes = size ? number("pmix.num.nodes") : std::nullopt;
    const auto local_size = nodes ? number("pmix.local.size") : std::nullopt;
    const auto local_rank = local_size ? number("pmix.lrank", self_.rank) : std::nullopt;
    library_.finalize(nullptr, 0);
    if (!local_rank) return {};
    return fmt::format("PMIX_JOB_SIZE={}\nPMIX_NUM_NODES={}\nPMIX_LOCAL_RANK={}\nPMIX_LOCAL_SIZE={}\n", *size,
                       *nodes, *local_rank, *local_size);
  }

 private:
  bool good(int status, const char* call) {
    if (status == k_success) return true;
    problem_ = fmt::format("{}: {} ({})", call, printable(library_.error_text(status)), status);
    return false;
  }
  facts::KeyValueAnswer failed() const { return {facts::KeyValueAnswer::Kind::failed, problem_}; }

  facts::KeyValueAnswer key_value_space_initialized(const std::optional<std::string>& value,
                                                    bool all_take_part) {
    if (!all_take_part) {
      const auto processes = number("pmix.job.size");
      const auto nodes = processes ? number("pmix.num.nodes") : std::nullopt;
      if (!nodes) return failed();
      if (*processes > *nodes) return {facts::KeyValueAnswer::Kind::uneven, {}};
    }
    if (value && !put(*value)) return failed();
    if (!good(library_.fence(nullptr, 0, nullptr, 0), "PMIx_Fence")) return failed();
    if (value) return {facts::KeyValueAnswer::Kind::told, *value};
    Value* found = nullptr;
    Process first = self_;
    first.rank = 0;
    if (!good(library_.get(&first, k_key, nullptr, 0, &found), "PMIx_Get")) return failed();
    if (found == nullptr || found->type != k_string || found->data.string == nullptr) {
      return {facts::KeyValueAnswer::Kind::failed, "PMIx_Get returned something other than a string"};
    }
    return {facts::KeyValueAnswer::Kind::told, printable(found->data.string, facts::k_max_pmi_line)};
  }

  bool put(std::string text) {
    Value value{};
    value.type = k_string;
    value.data.string = text.data();
    return good(library_.put(k_scope_global, k_key, &value), "PMIx_Put") &&
           good(library_.commit(), "PMIx_Commit");
  }

  std::optional<std::uint32_t> number(const char* key, std::uint32_t rank = k_rank_wildcard) {
    Value* found = nullptr;
    Process of = self_;
    of.rank = rank;
    if (!good(library_.get(&of, key, nullptr, 0, &found), key)) return std::nullopt;
    if (found != nullptr && found->type == k_uint16) return found->data.small_number;
    if (found == nullptr || found->type != k_uint32) {
      problem_ = fmt::format("{} is not a number", key);
      return std::nullopt;
    }
    return found->data.number;
  }

  const PmixLibrary& library_;
  Process self_{};
  std::string problem_;
};

}  // namespace

facts::KeyValueAnswer key_value_space_over_pmix(const std::string& library,
                                                const std::optional<std::string>& value, bool all_take_part) {
  PmixLibrary loaded;
  const std::string problem = loaded.load(library);
  if (!problem.empty()) return {facts::KeyValueAnswer::Kind::failed, problem};
  return Client(loaded).key_value_space(value, all_take_part);
}

std::string ask_pmix_place(const std::string& library) {
  PmixLibrary loaded;
  return loaded.load(library).empty() ? Client(loaded).ask_place() : std::string();
}

}  // namespace ddprun::os

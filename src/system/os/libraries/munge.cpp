#include "os/libraries/munge.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/text.hpp"
#include "os/libraries/library_function.hpp"

namespace ddprun::os {

namespace {

// The part of munge.h that is used; its numbers are a fixed interface.
constexpr int k_replayed = 17;
constexpr int k_option_ttl = 4;
constexpr int k_option_socket = 8;
constexpr int k_option_uid_restriction = 9;

struct MungeLibrary {
  void* (*create)() = nullptr;
  void (*destroy)(void*) = nullptr;
  int (*set)(void*, int, ...) = nullptr;
  const char* (*context_error)(void*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*encode)(char**, void*, const void*, int) = nullptr;
  int (*decode)(const char*, void*, void**, int*, uid_t*, gid_t*) = nullptr;

  // Loads the library. Returns an empty string, or the reason of a failure.
  std::string load(const std::string& name) {
    void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return fmt::format("libmunge cannot be loaded: {}", ::dlerror());
    const bool whole =
        find_function(handle, "munge_ctx_create", create) &&
        find_function(handle, "munge_ctx_destroy", destroy) && find_function(handle, "munge_ctx_set", set) &&
        find_function(handle, "munge_ctx_strerror", context_error) &&
        find_function(handle, "munge_strerror", error_text) &&
        find_function(handle, "munge_encode", encode) && find_function(handle, "munge_decode", decode);
    return whole ? std::string() : fmt::format("{} lacks a function of libmunge", name);
  }
};

// First bytes of a request and of its answer.
constexpr char k_encode = 'e';
constexpr char k_decode = 'd';
constexpr char k_good = '+';
constexpr char k_bad = '-';

using Memory = std::unique_ptr<void, void (*)(void*)>;

// A single call in the child, since a context keeps what the last one left.
class Caller {
 public:
  Caller(const MungeLibrary& library, const std::string& socket)
      : library_(library), context_(library.create()) {
    if (context_ != nullptr && !socket.empty()) library_.set(context_, k_option_socket, socket.c_str());
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() { library_.destroy(context_); }

  std::string encode(const std::string& payload) const {
    if (context_ == nullptr) return refuse(0);
    library_.set(context_, k_option_ttl, Munge::k_lifetime_seconds);
    library_.set(context_, k_option_uid_restriction, ::geteuid());
    char* credential = nullptr;
    const int error =
        library_.encode(&credential, context_, payload.data(), static_cast<int>(payload.size()));
    const Memory owner(credential, std::free);
    return error == k_success && credential != nullptr ? k_good + std::string(credential) : refuse(error);
  }

  std::string decode(const std::string& credential) const {
    if (context_ == nullptr) return refuse(0);
    void* payload = nullptr;
    int size = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    const int error = library_.decode(credential.c_str(), context_, &payload, &size, &uid, &gid);
    const Memory owner(payload, std::free);
    if (error == k_replayed) return k_bad + std::string("the credential has been used before");
    if (error != k_success || size < 0) return refuse(error);
    std::string answer(1 + sizeof uid, k_good);
    std::memcpy(answer.data() + 1, &uid, sizeof uid);
    return answer.append(static_cast<const char*>(payload), static_cast<std::size_t>(size));
  }

 private:
  // Returns the reason of a refusal. The context's text is more precise than the number's, and may name the
  // socket.
  std::string refuse(int error) const {
    if (context_ == nullptr) return k_bad + std::string("out of memory");
    const char* const precise = library_.context_error(context_);
    const char* const text = precise != nullptr ? precise : library_.error_text(error);
    return k_bad + fmt::format("{} (munge error {})", text, error);
  }

  const MungeLibrary& library_;
  void* context_;
};

// Makes, in the child, the function that serves. A library that cannot be loaded now will not be later.
ServingChild::Serve make_server(const std::string& socket, const std::string& name) {
  const auto library = std::make_shared<MungeLibrary>();
  const std::string problem = library->load(name);
  return [library, problem, socket](const std::string& request) {
    if (!problem.empty()) return k_bad + problem;
    const Caller caller(*library, socket);
    return request.front() == k_encode ? caller.encode(request.substr(1)) : caller.decode(request.substr(1));
  };
}

}  // namespace

bool capture_munge_presence() {
  for (const char* path : {"/run/munge/munge.socket.2", "/var/run/munge/munge.socket.2"}) {
    struct stat status {};
    if (::stat(path, &status) == 0 && S_ISSOCK(status.st_mode)) return true;
  }
  return false;
}

Munge::Munge(std::string socket, Milliseconds deadline, std::string library, Milliseconds rest)
    : deadline_(deadline),
      child_([socket = std::move(socket), name = std::move(library)] { return make_server(socket, name); }),
      rest_(rest) {}

Munge::Answer Munge::ask(Operation operation, const std::string& text) {
  static constexpr int k_patience = 3;
  if (std::chrono::steady_clock::now() < rests_until_)
    return {std::nullopt, "the munge daemon has stopped answering"};
  const ChildAnswer answer =
      child_.ask((operation == Operation::encode ? k_encode : k_decode) + text, deadline_);
  unanswered_ = answer.timed_out ? unanswered_ + 1 : 0;
  if (unanswered_ >= k_patience) {
    rests_until_ = std::chrono::steady_clock::now() + rest_;
    unanswered_ = 0;
  }
  if (!answer.bytes) return {std::nullopt, fmt::format("cannot reach the munge daemon: {}", answer.problem)};
  if (!answer.bytes->starts_with(k_good)) return {std::nullopt, printable(answer.bytes->substr(1))};
  return {answer.bytes->substr(1), ""};
}

MungeEncoded Munge::encode(const std::string& payload) {
  if (payload.size() > k_payload_limit) {
    return {std::nullopt, fmt::format("a munge payload has at most {} bytes", k_payload_limit)};
  }
  Answer answer = ask(Operation::encode, payload);
  return {std::move(answer.bytes), std::move(answer.problem)};
}

MungeDecoded Munge::decode(const std::string& credential) {
  if (credential.size() > k_credential_limit || credential.find('\0') != std::string::npos) {
    return {std::nullopt, 0, "this is not a munge credential"};
  }
  Answer answer = ask(Operation::decode, credential);
  MungeDecoded decoded{std::nullopt, 0, std::move(answer.problem)};
  if (!answer.bytes || answer.bytes->size() < sizeof decoded.uid) return decoded;
  std::memcpy(&decoded.uid, answer.bytes->data(), sizeof decoded.uid);
  decoded.payload = answer.bytes->substr(sizeof decoded.uid);
  return decoded;
}

}  // namespace ddprun::os

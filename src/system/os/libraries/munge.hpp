// Credentials of the MUNGE service: proof that a user's process on a host of this cluster made a message.
// libmunge is loaded when first needed, so that one binary runs where it is not installed.
//
// libmunge gives each of five attempts two seconds (src/libmunge/m_msg_client.c, src/libcommon/m_msg.c of
// MUNGE 0.5), so a stopped daemon would hold its caller for more than ten: a child makes the calls, each with
// a deadline after which it is ended, and after three calls in a row without an answer the next ones fail at
// once.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/duration.hpp"
#include "os/process/serving_child.hpp"

namespace ddprun::os {

inline constexpr const char* k_munge_library = "libmunge.so.2";

// Reports whether a munge daemon's socket is in one of its usual places.
bool capture_munge_presence();

struct MungeEncoded {
  std::optional<std::string> credential;  // printable, of a few hundred bytes more than the payload
  std::string problem;                    // one sentence for the user, if there is no credential
};

struct MungeDecoded {
  std::optional<std::string> payload;
  std::uint32_t uid = 0;  // user who made the credential, certified by the cluster's key
  std::string problem;
};

class Munge {
 public:
  static constexpr Milliseconds k_deadline{3000};
  static constexpr std::size_t k_payload_limit = 4096;
  static constexpr std::size_t k_credential_limit = 16384;
  static constexpr int k_lifetime_seconds = 60;

  static constexpr Milliseconds k_rest{60000};  // after three questions without an answer nothing is asked

  // Makes a client. `socket`: the daemon's socket if not the library's own choice.
  explicit Munge(std::string socket = {}, Milliseconds deadline = k_deadline,
                 std::string library = k_munge_library, Milliseconds rest = k_rest);

  // Makes a credential that only our own effective user can decode, for one minute.
  MungeEncoded encode(const std::string& payload);
  // Refuses what is no credential, has expired, was meant for another user, or was decoded on this host
  // before.
  MungeDecoded decode(const std::string& credential);

 private:
  struct Answer {
    std::optional<std::string> bytes;
    std::string problem;
  };
  enum class Operation { encode, decode };
  Answer ask(Operation operation, const std::string& text);

  Milliseconds deadline_;
  ServingChild child_;
  int unanswered_ = 0;
  Milliseconds rest_;
  std::chrono::steady_clock::time_point rests_until_{};
};

}  // namespace ddprun::os

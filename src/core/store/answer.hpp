// Effect of each request on the store, and the answer to its sender.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/request.hpp"
#include "store/store_state.hpp"

namespace ddprun::store {

// One-byte answers, the same in all releases.
inline constexpr char k_store_ready = 0;
inline constexpr char k_store_not_ready = 1;
inline constexpr char k_store_stop_waiting = 0;
inline constexpr char k_store_wait_canceled = 1;
inline constexpr char k_store_watch_registered = 3;

// Carries the request out, appends the answer to `reply` and what others are owed to `effects`. Returns why
// the connection has to be closed, if so; then the request has changed nothing.
std::optional<std::string> answer(const StoreRequest& request, StoreClient client, const StoreLimits& limits,
                                  StoreState& state, StoreEffects& effects, std::string& reply);

// Return the most bytes that the store holds more after the request, and the least length of the answer.
std::size_t kept_bytes(const StoreRequest& request);
std::size_t reply_bytes(const StoreRequest& request, const StoreState& state);

// Appends a text as requests and answers have it, behind its 64-bit length.
void append_text(std::string& bytes, std::string_view text);

// Appends the notice that torch 2.0 and older read on a connection that watches keys.
void append_watch_notice(std::string& bytes, const WatchNotice& notice);

}  // namespace ddprun::store

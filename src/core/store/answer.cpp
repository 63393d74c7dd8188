#include "store/answer.hpp"

#include <algorithm>

namespace ddprun::store {
namespace {

using Complaint = std::optional<std::string>;

template <class Number>
void append_number(std::string& bytes, Number value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_count(std::string& bytes, std::size_t count) {
  append_number(bytes, static_cast<std::int64_t>(count));
}

std::size_t list_bytes(const StoreState& state) {
  return sizeof(std::int64_t) + state.size() * sizeof(std::uint64_t) + state.key_bytes();
}

struct Context {
  FieldReader fields;
  StoreClient client;
  const StoreLimits& limits;
  StoreState& state;
  StoreEffects& effects;
  std::string& reply;

  bool reply_too_long() const { return reply.size() > limits.reply; }
};

Complaint add(Context& on) {
  const std::string_view key = on.fields.text();
  const auto sum = on.state.add(key, on.fields.integer(), on.effects);
  if (!sum) return "ADD to a value that is not a number, or past 64 bits";
  append_number(on.reply, *sum);
  return std::nullopt;
}

Complaint append(Context& on) {
  const std::string_view key = on.fields.text();
  if (!on.state.append(key, on.fields.text(), on.effects)) return "APPEND makes the value too long";
  return std::nullopt;
}

void compare_set(Context& on) {
  const std::string_view key = on.fields.text();
  const std::string_view expected = on.fields.text();
  append_text(on.reply, on.state.compare_set(key, expected, on.fields.text(), on.effects));
}

void check(Context& on) {
  bool ready = true;
  for (std::size_t left = on.fields.count(); left > 0 && ready; --left)
    ready = on.state.present(on.fields.text());
  on.reply.push_back(ready ? k_store_ready : k_store_not_ready);
}

void wait(Context& on) {
  for (std::size_t left = on.fields.count(); left > 0; --left) on.state.wait_for(on.client, on.fields.text());
  if (!on.state.waiting(on.client)) on.reply.push_back(k_store_stop_waiting);
}

Complaint multi_get(Context& on) {
  for (std::size_t left = on.fields.count(); left > 0; --left) {
    append_text(on.reply, on.state.get(on.fields.text()).value_or(std::string_view()));
    if (on.reply_too_long()) return "MULTI_GET asks for too many bytes";
  }
  return std::nullopt;
}

void multi_set(Context& on) {
  for (std::size_t left = on.fields.count(); left > 0; --left) {
    const std::string_view key = on.fields.text();
    on.state.set(key, on.fields.text(), on.effects);
  }
}

void set(Context& on) {
  const std::string_view key = on.fields.text();
  on.state.set(key, on.fields.text(), on.effects);
}

void push(Context& on) {
  const std::string_view key = on.fields.text();
  on.state.push(key, on.fields.text(), on.effects);
}

void pop(Context& on) {
  const std::string_view key = on.fields.text();
  append_count(on.reply, on.state.queue_length(key));
  if (const auto value = on.state.pop(key)) append_text(on.reply, *value);
}

void list_keys(Context& on) {
  append_count(on.reply, on.state.size());
  on.reply.reserve(on.reply.size() + list_bytes(on.state));
  on.state.for_each_key([&on](std::string_view key) { append_text(on.reply, key); });
}

Complaint barrier(Context& on) {
  const std::string_view key = on.fields.text();
  if (on.state.enter_barrier(on.client, key, on.fields.integer(), on.effects)) return std::nullopt;
  return "BARRIER at a key whose value is not a number";
}

Complaint watch(Context& on) {
  if (!on.state.watch(on.client, on.fields.text())) return "it watches too many keys";
  on.reply.push_back(k_store_watch_registered);
  return std::nullopt;
}

Complaint dispatch(StoreOperation operation, Context& on) {
  switch (operation) {
    case StoreOperation::validate:
      break;  // has no answer
    case StoreOperation::set:
      set(on);
      break;
    case StoreOperation::compare_set:
      compare_set(on);
      break;
    case StoreOperation::get:
      append_text(on.reply, on.state.get(on.fields.text()).value_or(""));
      break;
    case StoreOperation::add:
      return add(on);
    case StoreOperation::check:
      check(on);
      break;
    case StoreOperation::wait:
      wait(on);
      break;
    case StoreOperation::count_keys:
      append_count(on.reply, on.state.size());
      break;
    case StoreOperation::delete_key:
      append_count(on.reply, on.state.erase(on.fields.text(), on.effects));
      break;
    case StoreOperation::append:
      return append(on);
    case StoreOperation::multi_get:
      return multi_get(on);
    case StoreOperation::multi_set:
      multi_set(on);
      break;
    case StoreOperation::cancel_wait:
      on.reply.push_back(k_store_wait_canceled);
      break;
    case StoreOperation::ping:
      on.reply.append(on.fields.rest());
      break;
    case StoreOperation::queue_push:
      push(on);
      break;
    case StoreOperation::queue_pop:
      pop(on);
      break;
    case StoreOperation::queue_length:
      append_count(on.reply, on.state.queue_length(on.fields.text()));
      break;
    case StoreOperation::list_keys:
      list_keys(on);
      break;
    case StoreOperation::barrier:
      return barrier(on);
    case StoreOperation::watch_key:
      return watch(on);
  }
  return std::nullopt;
}

}  // namespace

std::size_t kept_bytes(const StoreRequest& request) {
  constexpr std::size_t k_entry = 256;  // more than any of the tables needs for one
  const RequestShape shape = request_shape(request.operation);
  switch (request.operation) {
    case StoreOperation::wait:
    case StoreOperation::multi_set:
      return 2 * request.body.size() + FieldReader(request.body).count() * k_entry;
    case StoreOperation::add:
    case StoreOperation::barrier:
    case StoreOperation::watch_key:
      return 2 * request.body.size() + k_entry;
    default:
      return shape.fields.find('v') == std::string_view::npos ? 0 : request.body.size() + k_entry;
  }
}

std::size_t reply_bytes(const StoreRequest& request, const StoreState& state) {
  FieldReader fields(request.body);
  switch (request.operation) {
    case StoreOperation::get:
      return state.get(fields.text()).value_or("").size();
    case StoreOperation::multi_get: {
      std::size_t sum = 0;
      for (std::size_t left = fields.count(); left > 0; --left) {
        sum += sizeof(std::uint64_t) + state.get(fields.text()).value_or("").size();
      }
      return sum;
    }
    case StoreOperation::compare_set:
      return std::max(request.body.size(), state.get(fields.text()).value_or("").size());
    case StoreOperation::queue_pop:
      return state.next_in_queue(fields.text());
    case StoreOperation::list_keys:
      return list_bytes(state);
    default:
      return 0;
  }
}

std::optional<std::string> answer(const StoreRequest& request, StoreClient client, const StoreLimits& limits,
                                  StoreState& state, StoreEffects& effects, std::string& reply) {
  state.cancel_wait(client);
  Context on{FieldReader(request.body), client, limits, state, effects, reply};
  if (auto complaint = dispatch(request.operation, on)) return complaint;
  if (on.reply_too_long()) return "more is asked for than is read";
  return std::nullopt;
}

void append_text(std::string& bytes, std::string_view text) {
  append_number(bytes, std::uint64_t{text.size()});
  bytes.append(text);
}

void append_watch_notice(std::string& bytes, const WatchNotice& notice) {
  bytes.reserve(bytes.size() + notice.key.size() + notice.old_value.size() + notice.new_value.size() + 32);
  bytes.push_back(static_cast<char>(notice.change));
  append_text(bytes, notice.key);
  append_text(bytes, notice.old_value);
  append_text(bytes, notice.new_value);
}

}  // namespace ddprun::store

#include "store/session.hpp"

#include <cstring>

namespace ddprun::store {

// Returns the next step. `bytes` begins where a request begins, the same one until it is complete.
StoreSession::Step StoreSession::next(std::string_view bytes, const StoreLimits& limits,
                                      OldTorch& old_torch) {
  if (stage_ == Stage::silent) {
    stage_ = Stage::opening;
    --old_torch.silent_connections;
  }
  if (stage_ == Stage::opening) {
    const Step step = open(bytes);
    if (stage_ == Stage::opening || step != Step::need_more) return step;
  }
  if (stage_ == Stage::between_requests) {
    if (!begin_request(static_cast<std::uint8_t>(bytes.front()), old_torch))
      return complain("unknown request");
    stage_ = Stage::in_request;
  }
  const std::string_view body = bytes.substr(1);
  auto result = scanner_.scan(body, limits);
  if (result == RequestScanner::Result::complete && undecided_eight_) {
    decide_eight(body.size() > scanner_.length(), old_torch);
    result = scanner_.scan(body, limits);
  }
  if (result == RequestScanner::Result::incomplete) return Step::need_more;
  if (result == RequestScanner::Result::illegal) return complain(scanner_.complaint());
  used_ = 1 + scanner_.length();
  only_watches_ = only_watches_ && operation_ == StoreOperation::watch_key;
  stage_ = Stage::between_requests;
  return Step::request;
}

// Leaves the opening stage as soon as the first bytes tell 2.2 and newer from the rest.
StoreSession::Step StoreSession::open(std::string_view bytes) {
  std::uint32_t magic = 0;
  if (bytes.front() == 0) {
    if (bytes.size() < 1 + sizeof magic) return Step::need_more;
    std::memcpy(&magic, bytes.data() + 1, sizeof magic);
  }
  stage_ = Stage::between_requests;
  if (magic != k_store_magic) return Step::need_more;
  dialect_ = StoreDialect::torch_2_2;
  operation_ = StoreOperation::validate;
  used_ = 1 + sizeof magic;
  return Step::request;
}

bool StoreSession::begin_request(std::uint8_t number, OldTorch& old_torch) {
  if (!dialect_) dialect_ = old_torch.known;
  const auto operation = dialect_ ? store_operation(*dialect_, number) : old_operation(number, old_torch);
  if (!operation || *operation == StoreOperation::validate) return false;
  operation_ = *operation;
  scanner_.begin(operation_);
  return true;
}

std::optional<StoreOperation> StoreSession::old_operation(std::uint8_t number, OldTorch& old_torch) {
  if (number == 7 && only_watches_) return StoreOperation::watch_key;
  if (number == 8) {
    undecided_eight_ = true;
    return StoreOperation::delete_key;
  }
  if (number < 7) return store_operation(StoreDialect::torch_2_0, number);
  const auto operation = store_operation(StoreDialect::torch_2_1, number);
  if (operation) dialect_ = old_torch.known = StoreDialect::torch_2_1;
  return operation;
}

void StoreSession::decide_eight(bool bytes_behind_key, OldTorch& old_torch) {
  undecided_eight_ = false;
  if (!bytes_behind_key && old_torch.silent_connections > 0) {
    dialect_ = StoreDialect::torch_2_0;
    return;
  }
  dialect_ = StoreDialect::torch_2_1;
  if (bytes_behind_key) old_torch.known = dialect_;
  operation_ = StoreOperation::append;
  scanner_.begin(operation_);
}

StoreSession::Step StoreSession::complain(std::string_view why) {
  complaint_ = why;
  return Step::complaint;
}

void StoreSession::keep(std::string_view rest) {
  constexpr std::size_t k_worth_releasing = 4096;
  if (held_.empty()) {
    if (!rest.empty()) held_.assign(rest);
  } else if (!rest.empty()) {
    held_.erase(0, held_.size() - rest.size());
  } else if (held_.capacity() > k_worth_releasing) {
    std::string().swap(held_);  // an assignment would keep the memory
  } else {
    held_.clear();
  }
}

}  // namespace ddprun::store

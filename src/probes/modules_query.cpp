#include "probes/modules_query.hpp"

#include <utility>

#include "os/capture/worker_modules.hpp"

namespace ddprun::probes {

namespace {

constexpr Milliseconds k_modules_limit{2000};

}  // namespace

ModulesQuery::ModulesQuery(boost::asio::io_context& context, std::vector<std::string> doors,
                           OnAnswer on_answer)
    : child_(os::capture_modules_in_child(std::move(doors))),
      answer_(std::make_shared<net::WholeAnswer>(
          context, child_.descriptor(), os::k_most_modules_text, k_modules_limit,
          [on_answer = std::move(on_answer)](const std::string& answer, bool) {
            on_answer(os::parse_modules(answer));
          })) {
  answer_->start();
}

}  // namespace ddprun::probes

// Asks the scheduler beside the event loop how long the job may still run.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "allocation/allocation.hpp"
#include "base/duration.hpp"
#include "probes/child_query.hpp"

namespace ddprun::probes {

// `on_answer` is called once, within three seconds; nothing where the scheduler does not say it. Throws Error
// where there can be no child.
std::unique_ptr<ChildQuery> ask_job_time(boost::asio::io_context& context,
                                         const allocation::Allocation& allocation,
                                         std::function<void(std::optional<Milliseconds> left)> on_answer);

}  // namespace ddprun::probes

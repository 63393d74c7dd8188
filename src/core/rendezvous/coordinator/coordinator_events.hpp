// Events that the coordinator reports to --events, as values.
#pragma once

#include <string>

#include "base/ids.hpp"
#include "events/event.hpp"
#include "report/outcome.hpp"
#include "slow/slow_watch.hpp"
#include "status/verdict.hpp"

namespace ddprun::rendezvous::told {

events::Event joined(std::string host, int workers);
events::Event refused(const std::string& address, const std::string& why);
events::Event planned(int nodes, int workers);
events::Event attempt(Attempt attempt, int workers);
events::Event stopping(Attempt attempt, const std::string& why);
events::Event lost(std::string host, std::string sentence);
events::Event hang(Attempt attempt, const status::Verdict& verdict);
events::Event failed(const report::Failure& failure);
// Makes the event of a restart. `cause`: the failure that it answers, if there is one.
events::Event restart(Attempt attempt, std::string what, const report::Failure* cause = nullptr);
events::Event asked(Attempt attempt, std::string what);
events::Event unfit(Attempt attempt, std::string host, std::string what, std::string hint);
events::Event slow(Attempt attempt, const slow::SlowNotice& notice);
events::Event waited(Attempt attempt, int rank, double seconds);
// Makes the event of a step that is complete in memory, or in the flush folder of that name.
events::Event checkpoint(Attempt attempt, std::int64_t step, const std::string& folder);
events::Event end(Attempt attempt, const report::Cause& cause);

}  // namespace ddprun::rendezvous::told

#pragma once

namespace ddprun {

// --store-access: processes of the job's user, or all on its hosts.
enum class StoreAccess { user, host };

}  // namespace ddprun

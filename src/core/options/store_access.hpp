// Access to the workers' store (--store-access).
#pragma once

namespace ddprun::options {

// --store-access: processes of the job's user, or all on its hosts.
enum class StoreAccess { user, host };

}  // namespace ddprun::options

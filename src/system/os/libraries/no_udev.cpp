// hwloc's static library asks udev for the names and sizes of disks, which ddprun does not need, and linking
// libudev would make it a run-time dependency of the program. hwloc goes on without udev where udev_new gives
// none, and then calls none of the others.
struct udev;
struct udev_device;

extern "C" {

udev* udev_new() { return nullptr; }
udev* udev_unref(udev*) { return nullptr; }
udev_device* udev_device_new_from_subsystem_sysname(udev*, const char*, const char*) { return nullptr; }
const char* udev_device_get_property_value(udev_device*, const char*) { return nullptr; }
udev_device* udev_device_unref(udev_device*) { return nullptr; }
}

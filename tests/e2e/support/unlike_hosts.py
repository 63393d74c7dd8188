"""Hosts that differ, as in a rack that grew: two networks, one of which only some hosts see, Debian's names, and names
that come late or lead to something else later.

All addresses are 192.168.x: gloo lets the smaller of two addresses listen, so with 10.x, which is below 127.x, a host
that publishes its loopback address may be lucky.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from .hosts import Host, HostGroup

FABRIC = "192.168.77."
STORAGE = "192.168.88."


class UnlikeHosts(HostGroup):
    """Each host has fabric0 and storage0; /tmp and the names are each host's own."""

    def __init__(self, names: Sequence[str], **more) -> None:
        super().__init__(names, fabric=FABRIC, **more)

    def plug_in(self, host: Host) -> None:
        super().plug_in(host)
        if host is self.hosts[min(self.hosts)]:
            self.add_switch("storage")
        host.connect("storage0", self.storage_address(host.name), "storage")

    def storage_address(self, name: str) -> str:
        return STORAGE + self[name].address.removeprefix(FABRIC)

    @contextlib.contextmanager
    def only_storage_on(self, name: str) -> Iterator[None]:
        """One host has no fabric; it is known to the others, and knows them, by its storage network."""
        self[name].check(["ip", "link", "set", "fabric0", "down"])
        try:
            for host in self.hosts.values():
                seen = {other: self.storage_address(other) if name in (host.name, other) else self[other].address
                        for other in self.hosts}
                host.write_names(f"{address} {other}" for other, address in seen.items())
            yield
        finally:
            self[name].check(["ip", "link", "set", "fabric0", "up"])
            self.use_plain_names()

    @contextlib.contextmanager
    def names_on(self, host: str, names: Mapping[str, str]) -> Iterator[None]:
        """What one host's name service says; write_names changes it."""
        self[host].write_names(f"{address} {name}" for name, address in names.items())
        try:
            yield
        finally:
            self.use_plain_names()

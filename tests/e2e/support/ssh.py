"""An sshd on every host of a group, and an ssh client that uses nothing of the machine's own.

Keys and both configurations are in the run directory and go with it. The client's configuration is bound over
/etc/ssh/ssh_config inside each host's own mount namespace, where the rest of the machine does not see it: ssh
looks for nothing in $HOME, only in the home directory of the password file.
"""

from __future__ import annotations

import shutil
import subprocess

from .hosts import Host, HostGroup, Process, wait_until

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
CLIENT_CONFIGURATION = "/etc/ssh/ssh_config"


def why_impossible() -> str | None:
    for program in ("ssh", "ssh-keygen", SSHD):
        if shutil.which(program) is None:
            return f"hosts with ssh need the program {program}"
    return None


class SshDaemons:
    """Use as a context manager around a started group; a host's daemon can be stopped and started again."""

    def __init__(self, hosts: HostGroup, user: str = "root") -> None:
        """`user`: whose key it is; root may use it too."""
        self._hosts = hosts
        self._user = user
        self._directory = hosts.directory / "ssh"
        self._daemons: dict[str, Process] = {}

    def __enter__(self) -> SshDaemons:
        self._directory.mkdir(mode=0o755)
        for name in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._directory / name)],
                           check=True)
        next(iter(self._hosts.hosts.values())).check(["chown", self._user, str(self._directory / "user_key")])
        (self._directory / "authorized_keys").write_text((self._directory / "user_key.pub").read_text())
        self._write_configurations()
        for host in self._hosts.hosts.values():
            host.check(["mount", "--bind", str(self._directory / "ssh_config"), CLIENT_CONFIGURATION])
            host.check(["mkdir", "-p", "/run/sshd"])
            self.start(host)
        return self

    def __exit__(self, *_) -> None:
        for name in list(self._daemons):
            self.stop(self._hosts[name])

    def start(self, host: Host) -> None:
        said = ""
        for _ in range(4):  # now and then one that starts beside much else answers nothing for ever
            daemon = host.popen([SSHD, "-D", "-e", "-f", str(self._directory / "sshd_config")])
            self._daemons[host.name] = daemon
            self._hosts.started.remove(daemon)  # it outlives the test that is running
            try:
                return wait_until(f"sshd answers on {host.name}", lambda: host.run(["ssh", host.name, "true"]).code == 0, seconds=30)
            except TimeoutError:
                said += host.run(["ssh", "-v", host.name, "true"]).stderr[-2000:]
                self._daemons.pop(host.name).kill()
                said += daemon.wait().stderr[-2000:]
        raise TimeoutError(f"sshd does not answer on {host.name}: {said}")

    def stop(self, host: Host) -> None:
        daemon = self._daemons.pop(host.name)
        daemon.kill()
        daemon.wait()

    def _write_configurations(self) -> None:
        directory = self._directory
        kept = {name: self._hosts.environment[name] for name in ("PATH", "HOME", "LANG")}
        (directory / "sshd_config").write_text("\n".join([
            "Port 22",
            f"HostKey {directory}/host_key",
            f"AuthorizedKeysFile {directory}/authorized_keys",
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin prohibit-password",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "MaxStartups 100",
            "PrintMotd no",
            "PrintLastLog no",
            "SetEnv " + " ".join(f'"{name}={value}"' for name, value in kept.items())]) + "\n")
        (directory / "ssh_config").write_text("\n".join([
            "Host *",
            f"  IdentityFile {directory}/user_key",
            "  IdentitiesOnly yes",
            "  StrictHostKeyChecking no",
            "  UserKnownHostsFile /dev/null",
            "  GlobalKnownHostsFile /dev/null",
            "  LogLevel ERROR",
            "  BatchMode yes"]) + "\n")

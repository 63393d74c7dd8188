"""A job on emulated hosts that outlives some of them.

Its workers note where they run, and what still runs of attempts before theirs.
"""

from __future__ import annotations

import signal
import uuid
from collections.abc import Sequence
from pathlib import Path

from . import evidence
from .hosts import HostGroup, Process, Result, wait_until
from .manual import PORT, as_text, wait_for_files
from .programs import SCRIPTS

WORKER = str(SCRIPTS / "wait_in_attempt.sh")


class Job:
    """One ddprun with one worker on each of some hosts."""

    def __init__(self, hosts: HostGroup, directory: Path, key: str) -> None:
        self.hosts, self.directory, self.key = hosts, directory, key
        self.agents: dict[str, Process] = {}
        value = str(uuid.uuid4())
        self.marker, self.env = f"DDPRUN_TEST_MARKER={value}", {"DDPRUN_TEST_MARKER": value}

    def start(self, names: str, *options: str, nodes: str = "", on_term: str = "exit 0", address: str = "",
              through: Sequence[str] = ()) -> None:
        """`through`: what runs ddprun."""
        program = self.program(on_term.format(self.directory))
        for name in names:
            place = ["--nnodes", nodes or f"1:{len(names)}", "--node-rank", str("abcd".index(name)), "--master-addr",
                     address or self.hosts["a"].address, "--master-port", PORT, "--key-file", self.key]
            self.agents[name] = self.hosts[name].popen([*through, "ddprun", *place, *options, *program], env=self.env)

    def program(self, *arguments: str) -> list[str]:
        return ["--no-python", WORKER, str(self.directory), *arguments]

    def kill(self, name: str) -> Process:
        killed = self.agents.pop(name)
        killed.send_signal(signal.SIGKILL)
        return killed

    def do(self, deed: str, rank: int, attempt: int = 0) -> None:
        """What the worker of this rank in this attempt does now, in its shell."""
        written = self.directory / "deed"
        written.write_text(deed.format(self.directory) + "\n")
        written.rename(self.directory / f"deed.{attempt}.{rank}")

    def wait_for_attempt(self, attempt: int, *lines: str) -> None:
        """Exactly these workers run in it."""
        wait_for_files(self.directory, f"{attempt}.*", len(lines))
        assert self.noted(attempt) == list(lines)

    def noted(self, attempt: int) -> list[str]:
        return sorted(path.read_text().strip() for path in self.directory.glob(f"{attempt}.*"))

    def events(self, kind: str) -> list[dict]:
        """Where --events names the file "events" of the folder."""
        return evidence.events(self.directory / "events", kind)

    def end(self) -> dict[str, str]:
        """All agents that are left succeed, and leave nothing; what they said."""
        (self.directory / "end").touch()
        results = {name: agent.wait() for name, agent in self.agents.items()}
        self.agents.clear()
        assert {result.code for result in results.values()} == {0}, as_text(list(results.values()))
        self.check_nothing_is_left()
        return {name: evidence.without_waiting(result.stderr) for name, result in results.items()}

    def wait_for_end_of(self, *names: str) -> dict[str, Result]:
        return {name: self.agents.pop(name).wait() for name in names}

    def stop_searching(self, *names: str) -> None:
        """Those that are cut off would look for the others for a minute or so."""
        for name in names:
            self.agents[name].send_signal(signal.SIGTERM)
        results = self.wait_for_end_of(*names).values()
        assert {result.code for result in results} == {128 + signal.SIGTERM}, as_text(list(results))

    def check_nothing_is_left(self) -> None:
        wait_until("no process is left", lambda: not self.hosts.processes_with(self.marker))

    def check_no_overlap(self) -> None:
        assert [path.name for path in self.directory.glob("overlap*")] == []

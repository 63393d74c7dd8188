"""What a terminal shows, which tmux tells."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from .machine import Machine

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


class Tmux:
    """A terminal as a person has it: what is on its screen, with colours as tmux writes them. The file `ended` is there
    when the command has ended."""

    def __init__(self, machine: Machine, command: str, columns: int = 100) -> None:
        self.tmux = ["tmux", "-S", str(machine.directory / "tmux"), "-f", "/dev/null"]
        subprocess.run([*self.tmux, "new-session", "-d", "-x", str(columns), "-y", "30",
                        f"{command}; touch ended; exec sleep 60"], check=True, cwd=machine.directory,
                       env=machine.environment | {"TERM": "xterm-256color"})

    def screen(self, *options: str) -> str:
        shown = subprocess.run([*self.tmux, "capture-pane", "-p", *options], check=True, capture_output=True, text=True)
        return shown.stdout.rstrip()

    def __enter__(self) -> Tmux:
        return self

    def __exit__(self, *_) -> None:
        subprocess.run([*self.tmux, "kill-server"], check=False)

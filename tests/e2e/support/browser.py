"""A headless Chromium, for what ddprun draws for browsers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def find() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


def _run(profile: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    # No network: what the page would load from elsewhere is missing.
    command = [find(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
               "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def dump(profile: Path, page: Path) -> str:
    """The page as the browser understood it."""
    return _run(profile, page, "--dump-dom").stdout


def photograph(profile: Path, page: Path, picture: Path, *, dark: bool = False, size: str = "1200,900") -> None:
    look = ("--blink-settings=preferredColorScheme=0",) if dark else ()
    _run(profile, page, f"--screenshot={picture}", f"--window-size={size}", *look)

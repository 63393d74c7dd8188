"""The Python package of packaging/wheel beside a ddprun, as pip installs the wheel: without building one."""

from __future__ import annotations

import shutil
from pathlib import Path

from .programs import REPOSITORY


def install(binary: Path, environment: Path) -> Path:
    """The folder for PYTHONPATH."""
    site = environment / "lib" / "site-packages"
    shutil.copytree(REPOSITORY / "packaging" / "wheel" / "ddprun", site / "ddprun",
                    ignore=shutil.ignore_patterns("__pycache__"))
    (environment / "bin").mkdir()
    (environment / "bin" / "ddprun").symlink_to(binary)
    metadata = site / "ddprun-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: ddprun\nVersion: 0\n")
    (metadata / "RECORD").write_text("../../bin/ddprun,,\n")
    return site

"""Where the program is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files


def program() -> str:
    """The path of the program that was installed with this package; FileNotFoundError where it is missing."""
    try:
        found = files("ddprun") or []
    except PackageNotFoundError:
        found = []
    for file in found:
        if file.name == "ddprun" and file.parent.name == "bin":
            return str(file.locate().resolve())  # type: ignore[attr-defined]  # SimplePath of typeshed has no resolve
    raise FileNotFoundError("the program of the package ddprun is missing; pip install --force-reinstall ddprun installs it again")

"""README, docs and man page: links lead somewhere, commands are understood, and what is made from elsewhere is current."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from support.programs import REPOSITORY

DOCS = sorted((REPOSITORY / "docs").glob("*.md"))
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *DOCS]
COMMANDS = [line.strip() for page in DOCS for line in page.read_text().splitlines()
            if re.match(r" {4}(srun )?ddprun ", line)]


def headings(page: Path) -> set[str]:
    found = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_or_a_heading(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, heading = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert not re.match(r"\w+:", target), f"{target} is not in this repository"
        assert file.exists(), target
        assert not heading or heading in headings(file), target


@pytest.mark.parametrize("line", COMMANDS)
def test_ddprun_understands_every_command(binary, tmp_path, line):
    (tmp_path / "train.py").touch()
    words = shlex.split(re.split(r" {3,}", line)[0].split("ddprun ", 1)[1])
    prints = {"--version", "--print-config"} & set(words)
    words = words if prints else ["--dry-run", *(word for word in words if word != "--dry-run")]
    result = subprocess.run([binary, *words], cwd=tmp_path, text=True, capture_output=True, timeout=60,
                            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    assert result.returncode == 0, result.stderr


def test_every_option_of_torchrun_has_a_row(torch_python):
    listed = subprocess.run(
        [torch_python, "-c", "from torch.distributed.run import get_args_parser as g\n"
         "print(*(a.option_strings[-1] for a in g()._actions if a.option_strings))"],
        text=True, capture_output=True, timeout=300, check=True).stdout.split()
    rows = "\n".join(line for line in (REPOSITORY / "docs" / "coming-from-torchrun.md").read_text().splitlines()
                     if line.startswith("| `"))
    missing = [name for name in listed if f"`{name.replace('_', '-')}`" not in rows]
    assert len(listed) > 25 and not missing


def test_every_message_under_when_it_fails_is_one_that_ddprun_has():
    page = (REPOSITORY / "docs" / "when-it-fails.md").read_text()
    before_launchers, _, _ = page.partition("## When a node is lost")
    messages = [row.split("|")[1].strip() for row in before_launchers.splitlines() if row.startswith("| ")]
    source = "".join(path.read_text() for path in (REPOSITORY / "src").rglob("*.cpp"))
    source = re.sub(r'"\s*\n\s*"', "", source)
    missing = [message for message in messages if message != "message" and message not in source]
    assert len(messages) > 12 and not missing


def test_the_page_of_batch_scripts_is_that_of_the_examples():
    path = str(REPOSITORY / "scripts" / "document")
    loader = importlib.machinery.SourceFileLoader("document", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("document", loader))
    loader.exec_module(module)
    page = REPOSITORY / "docs" / "coming-from-shell.md"
    assert page.read_text() == module.shell_page(), "scripts/document shell writes it anew"


def test_the_manual_has_no_error_of_mandoc_or_groff():
    manual = REPOSITORY / "man" / "ddprun.1"
    for command in (["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-man", "-ww", "-z"]):
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed")
        result = subprocess.run([*command, manual], text=True, capture_output=True, timeout=60)
        assert result.stdout + result.stderr == "" and result.returncode == 0


def ask_fish(binary: Path, line: str) -> list[str]:
    script = f"{shlex.quote(str(binary))} --print-completion fish | source\ncomplete -C {shlex.quote(line)}"
    result = subprocess.run(["fish", "--no-config", "-c", script], text=True, capture_output=True, timeout=60)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    return [offer.split("\t")[0] for offer in result.stdout.splitlines()]


def test_fish_completes_options_their_words_and_nothing_of_ddprun_after_the_script(binary):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    assert ask_fish(binary, "ddprun --nnod") == ["--nnodes"]
    assert sorted(ask_fish(binary, "ddprun --nproc-per-node ")) == ["auto", "cpu", "gpu", "xpu"]
    assert ask_fish(binary, "ddprun --nnodes 2 train.py --nnod") == []


def test_zsh_reads_its_completion_and_names_every_option(binary):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    script = (f"autoload -U compinit && compinit -D -u; eval \"$({shlex.quote(str(binary))} --print-completion zsh)\"; "
              "print ${_comps[ddprun]}; functions _ddprun")
    result = subprocess.run(["zsh", "-f", "-c", script], text=True, capture_output=True, timeout=60)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    assert result.stdout.splitlines()[0] == "_ddprun" and "--nproc-per-node" in result.stdout

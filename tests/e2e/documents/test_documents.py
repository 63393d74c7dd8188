"""README, docs and man pages: links lead somewhere, the site shows every page, and what is generated is current. Their commands
are in examples/test_readme.py."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from support.programs import REPOSITORY

FOLDER = REPOSITORY / "docs"
DOCS = sorted(FOLDER.glob("*.md"))
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "ARCHITECTURE.md", *DOCS]
MANUALS = sorted((REPOSITORY / "man").iterdir())
DDPRUN_1 = (REPOSITORY / "man" / "ddprun.1").read_text().replace("\\-", "-")


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
        assert page not in DOCS or file.is_relative_to(FOLDER), f"{target} is not on the site"
        assert not heading or heading in headings(file), target


def test_the_walks_through_the_program_name_functions_that_are_there():
    walks = (REPOSITORY / "ARCHITECTURE.md").read_text().split("## Two walks\n")[1].split("\n## ")[0]
    steps = [row.split("|")[2:4] for row in walks.splitlines() if ".cpp`" in row]
    assert len(steps) > 15
    for names, places in steps:
        sources = "".join(next((REPOSITORY / "src").glob(f"*/{place}")).read_text() for place in re.findall(r"`([^`]+)`", places))
        assert [name for name in re.findall(r"`([^`]+)`", names) if not re.search(rf"\b{name}\b", sources)] == [], places


def test_the_navigation_of_the_site_shows_every_page_once():
    nav = (REPOSITORY / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    assert sorted(re.findall(r": (\S+\.md)$", nav, re.MULTILINE)) == [page.name for page in DOCS]


def test_the_site_is_built_without_a_warning(tmp_path):
    mkdocs = shutil.which("mkdocs")
    if mkdocs is None:
        pytest.skip("mkdocs is not installed (pip install mkdocs-material)")
    result = subprocess.run([mkdocs, "build", "--strict", "--site-dir", tmp_path], cwd=REPOSITORY, text=True,
                            capture_output=True, timeout=120)
    assert result.returncode == 0, result.stderr


def test_every_page_can_be_reached_from_the_readme_and_from_the_start_of_the_site():
    for start, folder in ((REPOSITORY / "README.md", "docs/"), (FOLDER / "index.md", "")):
        linked = re.findall(r"\]\((\S+\.md)\)", start.read_text())
        assert [page.name for page in DOCS if page.name not in ("index.md", "decisions.md")
                and folder + page.name not in linked] == []


def test_the_pages_that_the_manual_names_are_there():
    named = re.findall(r"\\fI([a-z-]+\.md)\\fR", DDPRUN_1.split(".SH SEE ALSO")[1])
    assert len(named) > 10 and not [name for name in named if not (FOLDER / name).exists()]


def test_readme_and_manual_are_short():
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 60
    assert len(DDPRUN_1.splitlines()) <= 900


def test_the_manual_has_each_option_once():
    entries = re.findall(r"^\.TP\n(?:\\fB-\w\\fR, )?\\fB(--[a-z-]+)", DDPRUN_1, re.MULTILINE)
    assert len(entries) > 70 and len(entries) == len(set(entries))


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
    messages = [row.split("|")[1].strip() for row in page.splitlines() if row.startswith("| ")]
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


@pytest.mark.parametrize("manual", MANUALS, ids=lambda manual: manual.name)
def test_the_manual_has_no_error_of_mandoc_or_groff(manual):
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

"""What a session is said to have written is what git blame says, when its edits are made in a real repository."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.records.repository import AGENT, BASE, SHELL, Repository
from tests.records.sessions import Claude, Codex, Gemini, lines, record
from transparency.records.range_check import MATCH, Text, check_range

PATH = "src/app.py"
Session = Claude | Codex | Gemini
MAKERS: dict[str, Callable[[], Session]] = {
    "claude": Claude,
    "claude-without-whole-texts": lambda: Claude(whole_texts=False),
    "codex": Codex,
    "gemini": Gemini,
}


def changed(text: str, chance: random.Random, step: int, alike: tuple[str, ...]) -> str:
    """The text with a few lines put in, taken out or written anew, among them some of *alike*."""
    rows = text.splitlines(keepends=True)
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(rows))
        new = [chance.choice([f"line {step} {chance.random()}\n", *alike]) for _ in range(chance.randint(0, 4))]
        rows[at : at + chance.randint(0, 3)] = new
    return "".join(rows)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("seed", range(8))
def test_every_line_has_the_author_that_git_blame_names(tmp_path: Path, maker: str, seed: int) -> None:
    chance = random.Random(seed)
    repository, session = Repository(tmp_path / "repository"), MAKERS[maker]()
    text = "".join(f"old {number}\n" for number in range(30))
    repository.write(PATH, text, BASE)
    # Shells change files without a diff; only a record with whole texts shows that, and can be followed after it. There
    # the diff is ours, and which of two lines that are alike is the new one has no answer: git's is as good.
    shells = maker in ("claude", "gemini")
    alike = () if shells else ("}\n", "\n")

    for step in range(14):
        before, text = text, changed(text, chance, step, alike)
        if text == before:
            continue
        author = SHELL if shells and step % 4 == 2 else AGENT
        repository.write(PATH, text, author)
        if author == SHELL:
            session.shell("sed -i s/x/y/ src/app.py")
        else:
            session.edit(PATH, before, repository.last_diff(PATH))

    made = record(session.data())
    assert repository.git("log", "-1", "--format=%an").strip() == AGENT, "what a shell did last, no record shows"
    authors = repository.authors(PATH)
    assert len(authors) == len(text.splitlines())
    wrote = {number for number, author in enumerate(authors, 1) if author == AGENT}
    assert set(lines(made, PATH)) == wrote
    for file in made["file-attribution"]["files"]:
        for conversation in file["conversations"]:
            for found in conversation["ranges"]:
                assert check_range(found, Text(text.encode())).outcome == MATCH


@pytest.mark.parametrize("maker", MAKERS)
def test_a_file_the_session_made_is_wholly_its_own_until_others_write_in_it(tmp_path: Path, maker: str) -> None:
    repository, session = Repository(tmp_path / "repository"), MAKERS[maker]()
    first = "a = 1\nb = 2\nc = 3\n"
    repository.write(PATH, first, AGENT)
    session.create(PATH, first)
    second = "a = 1\nb = 20\nc = 3\nd = 4\n"
    repository.write(PATH, second, AGENT)
    session.edit(PATH, first, repository.last_diff(PATH))

    made = record(session.data())

    assert repository.authors(PATH) == [AGENT] * 4
    assert sorted(lines(made, PATH)) == [1, 2, 3, 4]

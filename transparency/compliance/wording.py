"""Sentences with figures in them, where a figure may be one: "1 entry is", not "1 entries are".

Sentences are written for many and said for one here, in one place: a noun after a lone 1, and the verb that follows it
at once. "2 of 1 entries" stays: it speaks of a share.
"""

from __future__ import annotations

import re
from typing import Final

_VERBS: Final = {
    "are": "is", "were": "was", "have": "has", "do not": "does not", "show": "shows", "hold": "holds", "give": "gives",
    "lead": "leads", "appear": "appears", "agree": "agrees", "contradict": "contradicts", "say": "says",
    "lack": "lacks", "resolve": "resolves", "verify": "verifies", "refer": "refers",
}  # fmt: skip
_NOUNS: Final = (
    "accesses|agents|answers|approvals|calls|cards|checkpoints|commits|concerns|days|departures|digests|edits|entries"
    "|errors|events|exit codes|files|hashes|hosts|hours|ids|inputs|issuers|keys|links|marks|members|minutes|models"
    "|months|numbers|oddities|parents|pauses|paths|persons|policies|problems|ranges|records|refusals|results|sessions"
    "|silences|statements|steps|times|tokens|tools|turns|units|violations|witnesses|writes"
)
_ENDINGS: Final = (("ies", "y"), ("sses", "ss"), ("shes", "sh"), ("s", ""))
_ONE: Final = re.compile(
    rf"(?<![\w.,:+/-])(?<![0-9] of )(?<!none of )1 (asking |attributed |card |further |tool )?({_NOUNS})\b"
    rf"( (?:{'|'.join(_VERBS)})\b)?"
)


def inflected(sentence: str) -> str:
    """*sentence* with the singular where it speaks of one."""
    return _ONE.sub(_singular, sentence) if "1 " in sentence else sentence


def _singular(match: re.Match[str]) -> str:
    before, noun, verb = match.groups()
    ending, instead = next(each for each in _ENDINGS if noun.endswith(each[0]))
    said = f"1 {before or ''}{noun.removesuffix(ending)}{instead}"
    return f"{said} {_VERBS[verb[1:]]}" if verb else said

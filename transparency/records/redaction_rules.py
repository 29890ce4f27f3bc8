"""What is taken out of a record before it is signed: rules that find secrets in a text, built in or from a TOML file.

A rule is a function from text to spans, and its time is linear in the text whatever the text is: every pattern here
starts at a literal or at the edge of a run, repeats are bounded and possessive, and a user's rule is no regular
expression but a prefix, an alphabet and a length, or a list of words. So no record can stall a submitter.

    builtin = ["email", "card-number"]        # left out: all of them

    [[rule]]
    name = "acme-key"
    prefix = "acme_"
    alphabet = "A-Za-z0-9"
    length = [20, 64]                         # of what follows the prefix

    [[rule]]
    name = "customer"
    words = ["Jane Doe", "Example GmbH"]
    ignore-case = true
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from transparency.errors import MalformedError

Span = tuple[int, int]

EMAIL: Final = "email"
URL_PASSWORD: Final = "url-password"  # noqa: S105 - the name of a rule

MAX_RULES: Final = 256
MAX_WORDS: Final = 256
MAX_RULES_BYTES: Final = 1024 * 1024
MAX_LENGTH: Final = 4096
# Below the least length a user's pattern fails, and may fail at every character of a run: this bounds that work.
MAX_LEAST: Final = 128
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_ALPHABET: Final = re.compile(r"(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9_.~+/=:-])+")


@dataclass(frozen=True, slots=True)
class Rule:
    """``find`` gives the spans of a text.

    A text has none unless it has one of the ``hints``, or something of the ``shape``; neither given: always look.
    """

    name: str
    find: Callable[[str], Iterable[Span]]
    hints: tuple[str, ...] = ()
    shape: re.Pattern[str] | None = None

    def may_be_in(self, text: str) -> bool:
        """Quickly, so that most lines of a large file need not be looked at string by string."""
        if self.shape is not None:
            return self.shape.search(text) is not None
        return not self.hints or any(hint in text for hint in self.hints)


def _pattern(name: str, pattern: str, *hints: str, group: int = 0) -> Rule:
    compiled = re.compile(pattern)

    def find(text: str) -> Iterator[Span]:
        return (match.span(group) for match in compiled.finditer(text))

    return Rule(name, find, hints)


# (prefix as a pattern, literals of which it has one, alphabet, least, most): a token is a prefix that nobody writes by
# chance and a run after it.
_WORD: Final = "A-Za-z0-9_-"
_VENDORS: Final[tuple[tuple[str, tuple[str, ...], str, int, int], ...]] = (
    ("(?:AKIA|ASIA|ABIA|ACCA)", ("AKIA", "ASIA", "ABIA", "ACCA"), "A-Z0-9", 16, 32),  # AWS key id
    ("gh[pousr]_", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), "A-Za-z0-9", 30, 255),  # GitHub
    ("github_pat_", ("github_pat_",), "A-Za-z0-9_", 22, 255),
    ("gl(?:pat|dt|rt|ptt|ft)-", ("glpat-", "gldt-", "glrt-", "glptt-", "glft-"), _WORD, 20, 255),  # GitLab
    ("sk-", ("sk-",), _WORD, 20, 255),  # OpenAI (sk-proj-…), Anthropic (sk-ant-…), OpenRouter, DeepSeek
    ("AIza", ("AIza",), _WORD, 35, 64),  # Google
    ("ya29\\.", ("ya29.",), "." + _WORD, 20, 2048),  # Google OAuth
    ("GOCSPX-", ("GOCSPX-",), _WORD, 20, 64),
    ("xox[abeoprs]-", ("xox",), "A-Za-z0-9-", 10, 255),  # Slack
    ("xapp-", ("xapp-",), "A-Za-z0-9-", 20, 255),
    ("[sr]k_(?:live|test)_", ("k_live_", "k_test_"), "A-Za-z0-9", 16, 255),  # Stripe
    ("whsec_", ("whsec_",), "A-Za-z0-9+/=", 24, 128),
    ("npm_", ("npm_",), "A-Za-z0-9", 36, 64),
    ("pypi-", ("pypi-",), _WORD, 50, 512),
    ("hf_", ("hf_",), "A-Za-z0-9", 30, 64),  # Hugging Face
    ("SG\\.", ("SG.",), "." + _WORD, 40, 128),  # SendGrid
    ("do[opr]_v1_", ("_v1_",), "a-f0-9", 64, 64),  # DigitalOcean
    ("dapi", ("dapi",), "a-f0-9", 32, 40),  # Databricks
    ("gsk_", ("gsk_",), "A-Za-z0-9", 40, 80),  # Groq
    ("xai-", ("xai-",), "A-Za-z0-9", 40, 128),
    ("r8_", ("r8_",), "A-Za-z0-9", 30, 64),  # Replicate
    ("pplx-", ("pplx-",), "A-Za-z0-9", 32, 80),  # Perplexity
    ("lin_api_", ("lin_api_",), "A-Za-z0-9", 32, 64),  # Linear
    ("dckr_pat_", ("dckr_pat_",), _WORD, 20, 64),  # Docker
    ("AGE-SECRET-KEY-1", ("AGE-SECRET-KEY-1",), "A-Z0-9", 40, 80),
    ("tl_[0-9a-f]{12}_", ("tl_",), _WORD, 20, 128),  # this project's own tokens
)
_API_KEY: Final = _pattern(
    "api-key",
    "(?<![A-Za-z0-9])(?:"
    + "|".join(f"{prefix}[{chars}]{{{least},{most}}}+" for prefix, _, chars, least, most in _VENDORS)
    + ")",
    *(literal for _, literals, *_ in _VENDORS for literal in literals),
)
# The named member of a configuration file: AWS secrets have no prefix of their own.
_NAMED: Final = r"[\"'\\]{0,4}+[ \t]{0,8}+[=:][ \t]{0,8}+[\"'\\]{0,4}+"
_AWS_SECRET: Final = _pattern(
    "api-key",
    r"(?i:aws_secret_access_key|aws_session_token|accountkey|secretaccesskey)" + _NAMED + r"([A-Za-z0-9+/=]{32,2048}+)",
    "ecret", "ECRET", "ession", "ESSION", "ccount", "ACCOUNT",
    group=1,
)  # fmt: skip
# A digit somewhere, or "bearer authentication-mechanism" would be one.
_BEARER: Final = _pattern(
    "bearer-token",
    r"(?i:(?<![A-Za-z])bearer|authorization" + _NAMED + r"(?:basic|bearer|token))[ \t]{1,8}+"
    r"(?=[A-Za-z._~+/=-]{0,512}+[0-9])([A-Za-z0-9._~+/=-]{16,8192}+)",
    "earer", "EARER", "uthorization", "UTHORIZATION",
    group=1,
)  # fmt: skip
_JWT: Final = _pattern(
    "jwt",
    r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{5,16384}+\.[A-Za-z0-9_-]{2,65536}+(?:\.[A-Za-z0-9_-]{0,65536}+){1,3}+",
    "eyJ",
)
_EMAIL: Final = _pattern(
    EMAIL,
    r"(?<![\w.%+'-])[\w.%+'-]{1,256}+@(?:[\w-]{1,63}+\.){1,8}[^\W\d_]{2,24}+(?![\w-])",
    "@",
)


def _pem(text: str) -> Iterator[Span]:
    """Whole PEM blocks (RFC 7468); one that is cut off ends with the text, for its beginning is secret enough."""
    position = text.find("-----BEGIN ")
    while position >= 0:
        ending = text.find("-----END ", position)
        dashes = text.find("-----", ending + 9) if ending >= 0 else -1
        end = dashes + 5 if dashes >= 0 else len(text)
        yield position, end
        position = text.find("-----BEGIN ", end)


_AUTHORITY: Final = re.compile(r"://([^/?#\s\"'<>\\]{3,2048}+)")


def _url_passwords(text: str) -> Iterator[Span]:
    """The password in scheme://user:password@host; the last @ ends it, since people forget to encode the others."""
    for match in _AUTHORITY.finditer(text):
        userinfo, at, _ = match.group(1).rpartition("@")
        user, colon, password = userinfo.partition(":")
        if at and colon and password:
            start = match.start(1) + len(user) + 1
            yield start, start + len(password)


# Groups of three digits at least, as cards are printed (4-4-4-4, 4-6-5, 4-3-3-3): "1 2 3 4 …" is no card.
_DIGITS: Final = re.compile(r"(?<![0-9])(?=[0-9 -]{13})[0-9]{3,}+(?:[ -][0-9]{3,}+)*+")
_GROUP: Final = re.compile(r"[0-9]++")
_MOST_DIGITS: Final = 19
_LEAST_DIGITS: Final = 13
# Issuer identification numbers and the lengths they come in (ISO/IEC 7812): without them every tenth number is a card.
_CARDS: Final = re.compile(
    r"4[0-9]{12}(?:[0-9]{3}){0,2}|3[47][0-9]{13}|(?:5[1-5][0-9]{2}|222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)"
    r"[0-9]{12}|(?:6011|65[0-9]{2}|64[4-9][0-9]|62[0-9]{2}|35[2-8][0-9])[0-9]{12,15}|3(?:0[0-5]|[689][0-9])[0-9]{11,16}"
    r"|(?:5[06-8]|6[0-9])[0-9]{11,17}"
)


def _card_numbers(text: str) -> Iterator[Span]:
    """Card numbers, whole or in groups, that pass Luhn's test; a run of groups is tried group by group."""
    for run in _DIGITS.finditer(text):
        groups = [match.span() for match in _GROUP.finditer(text, run.start(), run.end())]
        first = 0
        while first < len(groups):
            last = _card_from(text, groups, first)
            if last < 0:
                first += 1
                continue
            yield groups[first][0], groups[last][1]
            first = last + 1


def _card_from(text: str, groups: Sequence[Span], first: int) -> int:
    """The last group of the longest card number that begins with group *first*; -1 if none does."""
    digits, found = "", -1
    for place in range(first, min(first + _MOST_DIGITS, len(groups))):
        start, end = groups[place]
        if len(digits) + end - start > _MOST_DIGITS:
            break
        digits += text[start:end]
        if len(digits) >= _LEAST_DIGITS and _CARDS.fullmatch(digits) and luhn(digits):
            found = place
    return found


_DOUBLED: Final = bytes.maketrans(b"0123456789", b"0246813579")


def luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of the others (ISO/IEC 7812-1 annex B)."""
    backwards = digits.encode("ascii")[::-1]
    # Sums of character codes: 48 too many for each digit.
    total = sum(backwards[::2]) + sum(backwards[1::2].translate(_DOUBLED)) - 48 * len(backwards)
    return total % 10 == 0


# In the order of precedence: where two spans meet they become one, under the name of the first rule.
BUILTIN: Final = (
    Rule("pem", _pem, ("-----BEGIN ",)),
    _JWT,
    _API_KEY,
    _AWS_SECRET,
    _BEARER,
    Rule(URL_PASSWORD, _url_passwords, ("://",)),
    _EMAIL,
    Rule("card-number", _card_numbers, shape=_DIGITS),
)
BUILTIN_NAMES: Final = tuple(dict.fromkeys(rule.name for rule in BUILTIN))


def load_rules(data: bytes) -> tuple[Rule, ...]:
    """The rules of a TOML file, the built-in ones first; MalformedError naming the rule and member that is wrong."""
    if len(data) > MAX_RULES_BYTES:
        _refuse("rules", f"more than {MAX_RULES_BYTES} bytes")
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise MalformedError(f"redaction rules: not TOML: {error}") from None
    _closed("the file", document, {"builtin", "rule"})
    chosen = document.get("builtin", list(BUILTIN_NAMES))
    if not isinstance(chosen, list) or not all(name in BUILTIN_NAMES for name in chosen):
        _refuse("builtin", f"is a list of {', '.join(BUILTIN_NAMES)}")
    tables = document.get("rule", [])
    if not isinstance(tables, list) or len(tables) > MAX_RULES or not all(isinstance(table, dict) for table in tables):
        _refuse("rule", f"is written [[rule]], at most {MAX_RULES} times")
    own = [_own_rule(number, table) for number, table in enumerate(tables, 1)]
    taken = [*BUILTIN_NAMES, *(rule.name for rule in own)]
    for name in taken:
        if taken.count(name) > 1:
            _refuse(name, "two rules have this name")
    if not own and not chosen:
        _refuse("builtin", "is empty, and there is no [[rule]]: nothing would be redacted")
    return (*own, *(rule for rule in BUILTIN if rule.name in chosen))


def _own_rule(number: int, table: Mapping[str, Any]) -> Rule:
    where = f"[[rule]] number {number}"
    name = table.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("omit-") or name == "pseudonym":
        _refuse(where, "name is 1 to 32 lower-case letters, digits and hyphens; omit-… and pseudonym are taken")
    if "words" in table:
        return _words_rule(name, where, table)
    _closed(where, table, {"name", "prefix", "alphabet", "length"})
    prefix, alphabet, length = table.get("prefix"), table.get("alphabet", "A-Za-z0-9_-"), table.get("length", [16, 256])
    if not isinstance(prefix, str) or not 2 <= len(prefix) <= 64:
        _refuse(where, "prefix is a text of 2 to 64 characters (or give words)")
    if not isinstance(alphabet, str) or not _ALPHABET.fullmatch(alphabet) or len(alphabet) > 64:
        _refuse(where, "alphabet is made of letters, digits, _.~+/=:- and ranges such as A-Z")
    if not _is_length(length):
        _refuse(where, f"length is [least, most], least at most {MAX_LEAST} and most at most {MAX_LENGTH}")
    pattern = rf"(?<![A-Za-z0-9]){re.escape(prefix)}[{_class(alphabet)}]{{{length[0]},{length[1]}}}+"
    return _pattern(name, pattern, prefix)


def _words_rule(name: str, where: str, table: Mapping[str, Any]) -> Rule:
    _closed(where, table, {"name", "words", "ignore-case"})
    words, ignore_case = table["words"], table.get("ignore-case", False)
    if (
        not isinstance(words, list)
        or not 1 <= len(words) <= MAX_WORDS
        or not all(isinstance(word, str) and 2 <= len(word) <= 256 for word in words)
    ):
        _refuse(where, f"words is a list of at most {MAX_WORDS} texts of 2 to 256 characters")
    if not isinstance(ignore_case, bool):
        _refuse(where, "ignore-case is true or false")
    # Longest first: of two words that begin alike the longer one is meant.
    alternatives = "|".join(re.escape(word) for word in sorted(set(words), key=lambda word: (-len(word), word)))
    flags = "(?i)" if ignore_case else ""
    return _pattern(name, f"{flags}(?:{alternatives})", *(() if ignore_case else words))


def _class(alphabet: str) -> str:
    """The inside of a character class: a hyphen that makes no range goes to the end."""
    ranges = re.findall(r"[A-Za-z0-9]-[A-Za-z0-9]", alphabet)
    rest = re.sub(r"[A-Za-z0-9]-[A-Za-z0-9]", "", alphabet)
    for first, _, last in ranges:
        if first > last:
            _refuse("alphabet", f"the range {first}-{last} is empty")
    return "".join(ranges) + "".join(sorted(set(rest.replace("-", "")))) + ("-" if "-" in rest else "")


def _is_length(length: object) -> bool:
    return (
        isinstance(length, list)
        and len(length) == 2
        and all(type(number) is int for number in length)
        and 1 <= length[0] <= length[1] <= MAX_LENGTH
        and length[0] <= MAX_LEAST
    )


def _closed(where: str, table: Mapping[str, Any], members: set[str]) -> None:
    for name in table:
        if name not in members:
            _refuse(where, f"{name!r:.80} is not one of {', '.join(sorted(members))}")


def _refuse(where: str, what: str) -> NoReturn:
    raise MalformedError(f"redaction rules: {where}: {what}")

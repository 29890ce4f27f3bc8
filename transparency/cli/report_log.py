"""``transparency report --log URL | --data DIR``: one pass over a log, and what it can show of what is asked for."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from transparency.cli.audit import open_source, read_thumbprint
from transparency.cli.connection import connect, tls_context
from transparency.cli.errors import CommandError
from transparency.cli.exits import Exit
from transparency.cli.git import Repository
from transparency.cli.output import note, progress
from transparency.cli.report_attested import attested, scope_text
from transparency.cli.report_options import ReportOptions
from transparency.cli.report_records import check_notes
from transparency.compliance.attestation import Attestation
from transparency.compliance.examined import OPERATION, READ, Examined, SessionFigures
from transparency.compliance.inventory import Inventory
from transparency.compliance.log_checks import LOG_CHECKS, LogChecks
from transparency.compliance.log_facts import CheckpointFacts, DrillFacts, LogFacts, SampleFacts
from transparency.compliance.log_settings import LogSettings
from transparency.compliance.report import CheckNote, Examination, Report, ReportBuilder
from transparency.compliance.settings import Settings
from transparency.display import iso_utc, safe_text
from transparency.errors import MalformedError, StoreError, TransparencyError

if TYPE_CHECKING:
    from transparency.client.sync import SyncLogClient
    from transparency.log.audit import AuditSource
    from transparency.log.store import Store
    from transparency.witness.examining import Reach
    from transparency.witness.log_gathering import Served
    from transparency.witness.log_pass import Passed

_MS: Final = 1_000
MAX_KEPT_TEXT: Final = 200
MAX_PROBLEMS: Final = 20
METHOD: Final = (
    "Every decision of the log was replayed from entry 0 on, as `transparency audit` does it, trusting one policy key.",
    "Every record in the period that could be read was checked on the bytes that were signed.",
    "What could not be read (hash-only, erased, not permitted) passed nothing: it is counted as not available.",
    "What is unusual for an agent (R9.4, L9) its earlier sessions on this log tell; docs/checks.md has the rules.",
    "Entries drawn at random were verified again from outside; the seed in L6 repeats the draw ([log] seed = …).",
    "To repeat it: `transparency report` with the same log, period and settings; one entry: `transparency verify`.",
)
LIMITS: Final = (
    "Whether the records are all there are: of a session that was never registered only an inventory can tell.",
    "Whether a record says what happened: it shows what its recorder wrote, and that nobody changed it since.",
    "Whether this is the newest state of the log, and the one that others see: only its witnesses can tell.",
    "What stands before the period: histories of agents begin with it.",
    "Whether a clause binds you. Wording marked unverified was not compared with the document's own text.",
)


@dataclass(slots=True)
class _Opened:
    """A log to be read: as an audit reads it, and for what else is asked of it."""

    source: AuditSource
    reach: Reach
    store: Store | None = None
    client: SyncLogClient | None = None


def run(options: ReportOptions) -> Report:
    """Make the report; CommandError where the log cannot be read, or holds nothing to report on."""
    log_settings, inventory = _read_settings(options)
    seed = log_settings.seed or secrets.randbelow(2**53 - 1) + 1
    with _opened(options) as opened:
        try:
            return _Run(options, opened, log_settings, inventory, seed).report()
        except StoreError as error:
            raise CommandError(
                Exit.CANNOT_TELL, str(error), "`transparency log fsck` looks at the database."
            ) from error
        except BrokenProcessPool as error:
            raise CommandError(
                Exit.CANNOT_TELL, "a process that examined records was ended from outside",
                "If memory ran out, fewer at once may do: --jobs 1.",
            ) from error  # fmt: skip


class _Run:
    def __init__(
        self, options: ReportOptions, opened: _Opened, log_settings: LogSettings, inventory: Inventory | None, seed: int
    ) -> None:
        self._options = options
        self._opened = opened
        self._log_settings = log_settings
        self._inventory = inventory
        self._seed = seed
        self._kept: int | None = None
        self._builder = ReportBuilder(
            "log", options.now, options.software, (*check_notes(), *log_check_notes()), options.frameworks,
            method=METHOD, limits=LIMITS, link=options.log,
        )  # fmt: skip

    def report(self) -> Report:
        from transparency.witness.examining import Examining
        from transparency.witness.log_gathering import served_checkpoint
        from transparency.witness.log_pass import LogPass, Scope
        from transparency.witness.spill import TemporarySpill

        options, now = self._options, self._options.now // _MS
        policy_key, pinned = self._policy_key()
        scope = Scope(_seconds(options.since), _seconds(options.until), options.issuer)
        # Before the pass: what the log publishes now is part of what it exports then.
        served = None if options.log is None else served_checkpoint(options.log, tls_context(options.cacert))
        with TemporarySpill() as spill:
            checks = LogChecks(spill, self._log_settings)
            with (
                Examining(
                    self._opened.reach, options.settings, processes=options.jobs,
                    baselines=checks.anomalies.baselines.tokens, now=now,
                ) as examining,
                progress("examining", quiet=options.quiet) as bar,
            ):  # fmt: skip
                task = bar.add_task("entries", total=None)
                sizes = frozenset() if served is None else frozenset({served.size})
                passing = LogPass(
                    checks, examining, self._add, scope, self._seed, spill, sizes, self._witnesses(served)
                )
                passed = passing.run(
                    self._opened.source, policy_key, lambda done, total: bar.update(task, completed=done, total=total)
                )
            if not passed.audit.size:
                raise CommandError(Exit.CANNOT_TELL, "there is nothing to report on: the log has no entries")
            if not passed.in_scope and (options.since, options.until, options.issuer) != (None, None, None):
                raise CommandError(
                    Exit.CANNOT_TELL, "nothing could be examined: no statement is of that period and issuer",
                    "Ask for another --from, --to or --issuer.",
                )  # fmt: skip
            facts = self._facts(passed, checks, served)
            for check, number in passing.attested(now):
                self._builder.fill(check, number)
            self._finish(passed, checks, facts, pinned=pinned)
        return self._builder.build()

    # -- what goes in --------------------------------------------------------------------------------------------

    def _policy_key(self) -> tuple[bytes, bool]:
        """The pinned thumbprint; without one the log's own word about itself, which the report says."""
        if self._options.policy_key is not None:
            return read_thumbprint(self._options.policy_key), True
        from transparency.log.documents import read_policy
        from transparency.statements.statement import Statement

        first = next(self._opened.source.entries(), None)
        if first is None or first.erased:
            raise CommandError(Exit.CANNOT_TELL, "there is nothing to report on: the log has no entries")
        try:
            key = read_policy(Statement.from_bytes(first.statement)).policy_key.thumbprint
        except TransparencyError as error:
            raise CommandError(Exit.CANNOT_TELL, f"entry 0 is not a policy: {error}") from error
        note("no --policy-key: the log is taken at its own word about who may rule it, and the report says so")
        return key, False

    def _add(self, examined: Examined) -> None:
        """One entry into the report: every session of it that is a record's, or was one."""
        if examined.retention is not None:
            keep = examined.retention[1]
            self._kept = keep if self._kept is None else min(self._kept, keep)
        day = iso_utc(examined.time)[:10]
        sessions = list(examined.by_session())
        if not sessions and examined.availability not in (OPERATION, READ):
            sessions = [(SessionFigures(), ())]  # nothing is left to be checked; it is counted all the same
        for number, (session, findings) in enumerate(sessions, 1):
            several = f" ({number} of {len(examined.sessions)})" if len(examined.sessions) > 1 else ""
            shown = Examination(
                name=f"entry {examined.index}{several}",
                session=safe_text(session.session, MAX_KEPT_TEXT),
                format=examined.facts.format,
                findings=findings,
                entry=examined.entry,
                index=examined.index,
                registered=examined.time * _MS,
                iss=safe_text(examined.iss, MAX_KEPT_TEXT),
                outcome=examined.outcome,
                statement=safe_text(examined.reason, MAX_KEPT_TEXT),
                availability=examined.availability,
            )
            self._builder.add(shown, day=day)

    # -- what comes out ------------------------------------------------------------------------------------------

    def _facts(self, passed: Passed, checks: LogChecks, served: Served | None) -> LogFacts:
        from transparency.log.folder import Folder
        from transparency.witness.log_gathering import access_facts

        options, audit = self._options, passed.audit
        data = options.data
        return LogFacts(
            origin=audit.origin,
            now=options.now // _MS,
            size=audit.size,
            heads=audit.heads,
            first_time=passed.first_time,
            last_time=passed.last_time,
            since=_seconds(options.since),
            until=_seconds(options.until),
            whole=options.since is None and options.until is None and options.issuer is None,
            problems=tuple((found.entry, found.what) for found in audit.findings),
            problems_made=audit.findings_made,
            checkpoints=self._checkpoints(passed, served),
            sample=self._sample(passed),
            drill=self._drill(passed),
            access=None if data is None else access_facts(Folder(data.absolute())),
            inventory=self._inventory,
            revisions=_revisions(options.repository, checks.links.revisions),
        )

    def _checkpoints(self, passed: Passed, served: Served | None) -> CheckpointFacts | None:
        from transparency.witness.log_gathering import folder_checkpoints, served_facts

        policy = self._options.witness_policy
        if passed.keys is None:
            return None
        if self._opened.store is not None:
            return folder_checkpoints(self._opened.store, passed.keys, policy, passed.audit.size)
        if served is None:
            return None
        return served_facts(served, passed.heads.get(served.size), passed.keys, policy)

    def _witnesses(self, served: Served | None) -> Callable[[int], tuple[int, int]] | None:
        """Who asked for no witnesses is told that nobody looked (R7.3)."""
        from transparency.witness.watched import watched_by, watched_in

        policy = self._options.witness_policy
        if policy is None:
            return None
        if self._opened.store is not None:
            return watched_in(self._opened.store, policy).covering
        return watched_by(() if served is None or served.problem else (served.note,), policy).covering

    def _sample(self, passed: Passed) -> SampleFacts | None:
        from transparency.witness.log_gathering import Sampling, folder_fetch

        if passed.keys is None:
            return None
        opened, now = self._opened, self._options.now // _MS
        if opened.store is not None:
            fetch = folder_fetch(opened.store)
        else:
            client = opened.client
            assert client is not None  # noqa: S101 - a folder, or a client
            fetch = lambda drawn: client.statement(drawn.entry)  # noqa: E731 - one line in two places
        with opened.reach.artifacts() as artifact:
            return Sampling(passed.keys, fetch, artifact).run(passed.drawn, self._seed, self._log_settings, now)

    def _drill(self, passed: Passed) -> DrillFacts | None:
        from transparency.witness.log_gathering import drill

        client = self._opened.client
        return None if client is None else drill(client.search, passed.findable)

    def _finish(self, passed: Passed, checks: LogChecks, facts: LogFacts, *, pinned: bool) -> None:
        options, builder, audit = self._options, self._builder, passed.audit
        now = options.now // _MS
        about_all: set[str] = set()
        for stated, entry, iss in passed.attestations:
            shown = attested(stated, iss, entry, _whom(stated, options))
            if not stated.stands(now):
                builder.lapsed.append(shown)
                continue
            builder.attested.append(shown)
            # Of a part of the log it says nothing about the log as a whole.
            about_all.update(() if shown.scope else stated.checks)
        builder.add_log(checks.finish(facts), about_all)
        builder.kept_seconds = self._kept
        counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(audit.entries.items()) if number)
        builder.scope += [
            ("log", safe_text(audit.origin) or "unknown"),
            ("read from", str(options.log or options.data)),
            ("entries", str(audit.size)),
            ("statements in the period", str(passed.in_scope)),
            ("from", "the beginning" if options.since is None else iso_utc(options.since // _MS)),
            ("to", iso_utc(passed.last_time) if options.until is None else iso_utc(options.until // _MS)),
            ("issuer", "all" if options.issuer is None else safe_text(options.issuer)),
            ("seed", str(self._seed)),
            ("frameworks", ", ".join(framework.title for framework in options.frameworks) or "none"),
        ]
        builder.trust += [
            ("policy key", "as given" if pinned else "not pinned: the log's own word"),
            ("decisions", counts or "none"),
            ("problems of the log", str(audit.findings_made)),
            ("witness policy", "none: nobody asked for witnesses" if options.witness_policy is None else "given"),
        ]
        for found in audit.findings[:MAX_PROBLEMS]:
            builder.unreadable.append((found.entry or "the log", safe_text(found.what)))


def _whom(stated: Attestation, options: ReportOptions) -> str:
    """What it is limited to, if that is less than what the report is about."""
    begins, ends = _seconds(options.since), _seconds(options.until)
    whole = (
        stated.iss in ("", options.issuer)
        and (stated.since is None or (begins is not None and stated.since <= begins))
        and (stated.until is None or (ends is not None and stated.until >= ends))
    )
    return "" if whole else scope_text(stated)


def log_check_notes() -> tuple[CheckNote, ...]:
    return tuple(CheckNote(check.id, check.requirement, check.title, check.looks_at) for check in LOG_CHECKS)


def _revisions(repository: Path | None, wanted: Iterable[str]) -> dict[str, bool] | None:
    if repository is None:
        return None
    git = Repository.at(repository)
    return {revision: git.has_commit(revision) for revision in wanted}


def _seconds(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds // _MS


def _read_settings(options: ReportOptions) -> tuple[LogSettings, Inventory | None]:
    try:
        if options.settings is not None:
            Settings.from_toml(options.settings)  # each process reads it itself; what is wrong is said here
        log_settings = LogSettings() if options.settings is None else LogSettings.from_toml(options.settings)
        inventory = None if options.inventory is None else Inventory.from_toml(options.inventory)
    except MalformedError as error:
        raise CommandError(Exit.BAD_INPUT, str(error), "docs/checks.md has every setting.") from error
    return log_settings, inventory


@contextmanager
def _opened(options: ReportOptions) -> Iterator[_Opened]:
    from transparency.log.folder import Folder
    from transparency.log.stores import open_for_reading
    from transparency.witness.examining import Reach

    with ExitStack() as stack:
        if options.data is not None:
            source = stack.enter_context(open_source(options.data, None, None, None))
            store = open_for_reading(Folder(options.data.absolute()))
            stack.callback(store.close)
            yield _Opened(source, Reach(data=options.data), store)
        else:
            assert options.log is not None  # noqa: S101 - one of the two is given
            from transparency.log.audit_sources import RemoteSource

            client = stack.enter_context(connect(options.log, token=options.token, cacert=options.cacert))
            reach = Reach(url=options.log, token=options.token, cacert=options.cacert)
            yield _Opened(RemoteSource(client.export), reach, client=client)

"""The report itself as a signed statement, registered if wanted: who reported what, and when, is evidence too."""

from __future__ import annotations

import hashlib
from pathlib import Path

from transparency.cli.connection import connect
from transparency.cli.files import read_input, write_output
from transparency.cli.keyfiles import load_private
from transparency.cli.outcome import Options
from transparency.cli.output import done
from transparency.cli.registration import Registrar
from transparency.cli.sessions import Source
from transparency.cli.sign import sign_named
from transparency.compliance.report import CONTENT_TYPE


def sign_report(
    file: str, key: str, iss: str, passphrase_file: str | None,
    *, submit: str | None, token: str | None, cacert: str | None, force: bool,
) -> None:  # fmt: skip
    """Sign the JSON report in *file* as FILE.cose; with *submit*, register it, and FILE.cose has its receipt."""
    data = read_input(file)
    subject = f"urn:sha256:{hashlib.sha256(data).hexdigest()}"
    signer = load_private(key, passphrase_file)
    target = f"{file}.cose"
    if submit is None:
        signed = sign_named(data, signer, Path(file).name, iss=iss, sub=subject, content_type=CONTENT_TYPE)
        write_output(target, signed.statement, force=force)
        done(f"{target}: the report signed by {iss}")
        return
    options = Options(iss, subject, CONTENT_TYPE, force=force)
    with connect(submit, token=token, cacert=cacert) as client:
        outcome = Registrar(client, signer, options).register(Source(file), target)
    where = "" if outcome.submission is None else f" as {outcome.statement.entry_id}"
    done(f"{target}: the report signed by {iss} and registered{where}")

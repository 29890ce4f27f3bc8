"""All cases of the record checks: what passes, what does not, what is not applicable, and on which evidence."""

from __future__ import annotations

from tests.compliance import cases_entries, cases_evidence

CASES = (*cases_entries.CASES, *cases_evidence.CASES)

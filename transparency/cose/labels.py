"""Header labels, claim keys and registry values: every number on the wire, in one place.

Sources: RFC 9052, RFC 9360 (x5*), RFC 9596 (typ), RFC 9597 (CWT Claims), RFC 9995 (hash envelope), RFC 9942
(receipts), RFC 8392 (claims). Labels below -65536 are private use (RFC 9052 §11.1) and ours.
"""

from __future__ import annotations

from typing import Final

ALG: Final = 1
CRIT: Final = 2
CONTENT_TYPE: Final = 3
KID: Final = 4
CWT_CLAIMS: Final = 15
TYP: Final = 16
X5CHAIN: Final = 33
X5T: Final = 34

# draft-birkholz-verifiable-agent-conversations: a placeholder, unregistered and unsigned. Never decides anything.
TRACE_METADATA: Final = 100

PAYLOAD_HASH_ALG: Final = 258
PREIMAGE_CONTENT_TYPE: Final = 259
PAYLOAD_LOCATION: Final = 260

RECEIPTS: Final = 394
VDS: Final = 395
VDP: Final = 396

VDS_RFC9162_SHA256: Final = 1
VDP_INCLUSION: Final = -1
VDP_CONSISTENCY: Final = -2

# Private use, protected header of a statement.
TRACE_METADATA_SIGNED: Final = -70100
SUPERSEDES: Final = -70101
SESSION_CHECKPOINT: Final = -70102
REDACTIONS: Final = -70103
# Private use, unprotected header of a receipt.
TLOG_PROOF: Final = -70104

CLAIM_ISS: Final = 1
CLAIM_SUB: Final = 2
CLAIM_EXP: Final = 4
CLAIM_NBF: Final = 5
CLAIM_IAT: Final = 6
# Private use, CWT claim of a receipt: the size RFC 9942 leaves unsigned (RC-18).
CLAIM_TREE_SIZE: Final = -70110

# Labels a `crit` header may name without making a message unprocessable here (RFC 9052 §3.1).
UNDERSTOOD: Final = frozenset(
    {ALG, CRIT, CONTENT_TYPE, KID, CWT_CLAIMS, TYP, X5CHAIN, X5T, PAYLOAD_HASH_ALG, PREIMAGE_CONTENT_TYPE,
     PAYLOAD_LOCATION, VDS, TRACE_METADATA_SIGNED, SUPERSEDES, SESSION_CHECKPOINT}
)  # fmt: skip

HASH_SHA256: Final = -16
HASH_SHA384: Final = -43
HASH_SHA512: Final = -44

# COSE_Key (RFC 9052 §7, RFC 9053 §7, RFC 8230 §4, RFC 9964 §4). What a negative label means depends on kty.
KEY_KTY: Final = 1
KEY_KID: Final = 2
KEY_ALG: Final = 3
KEY_OPS: Final = 4
KEY_OP_VERIFY: Final = 2
KTY_OKP: Final = 1
KTY_EC2: Final = 2
KTY_RSA: Final = 3
KTY_AKP: Final = 7
KEY_CRV: Final = -1
KEY_X: Final = -2
KEY_Y: Final = -3
KEY_EC_D: Final = -4
KEY_RSA_N: Final = -1
KEY_RSA_E: Final = -2
KEY_RSA_PRIVATE: Final = frozenset(range(-12, -2))
KEY_AKP_PUB: Final = -1
KEY_AKP_PRIV: Final = -2
# Private use, in the COSE_Key that a log serves of its own key: in other hands since (seconds since 1970).
KEY_COMPROMISED_SINCE: Final = -70120
CRV_P256: Final = 1
CRV_P384: Final = 2
CRV_P521: Final = 3
CRV_ED25519: Final = 6

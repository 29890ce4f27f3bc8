"""The RFC 9162 Merkle tree: hashes, proofs, tiles. Pure: no clock, no randomness, no I/O."""

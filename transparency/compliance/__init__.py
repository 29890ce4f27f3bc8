"""What the rules ask of agent records, and the evidence for it: checks, frameworks, reports (formats.md 10)."""

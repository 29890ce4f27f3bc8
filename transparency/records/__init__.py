"""Agent-record formats: read strictly, summarised, and compared with what a header says of them."""

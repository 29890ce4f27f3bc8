"""Tests of transparency.records."""

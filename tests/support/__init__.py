"""Fixtures, drivers and fakes that tests of several packages share."""

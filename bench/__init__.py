"""Measures the daemon, beside what one would use instead and beside what the machine can do; see docs/speed.md."""

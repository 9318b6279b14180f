"""Compiled loops for the CPU: arrays in, arrays out; they know nothing of the rest of the package."""

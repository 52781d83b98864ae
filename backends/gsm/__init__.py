"""Grouped Sequential Memory: naming, keeping and evicting groups of KV cache.

Nothing in here does I/O or imports anything but the standard library and this package itself, for the same
modules are installed into the environment of a vLLM server.
"""

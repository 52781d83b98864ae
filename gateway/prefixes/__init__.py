"""Prefixes of tenants, computed on every replica before traffic, and kept there."""

"""Thinking: what clients ask of it, and how each engine is told."""

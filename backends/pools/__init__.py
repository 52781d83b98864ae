"""Pools at work: who is in them, how loaded they are, and which of them speculates for whom."""

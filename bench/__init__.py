"""Measurements; each prints the figures that the documents quote."""

"""Model files of embedded engines: which there are, where they come from, where they lie."""

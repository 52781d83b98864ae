"""Other APIs than chat completions, on the same pipeline: a request is translated in, the answer out."""

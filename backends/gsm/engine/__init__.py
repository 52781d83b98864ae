"""GSM inside a vLLM server: a policy on vLLM's own offloading framework, installed into vLLM's environment.

vLLM cuts what it offloads into *chunks*; here a chunk is a **page**, the smallest whole number of the
engine's blocks with at least 128 tokens, and a GSM group is a run of pages. So a group is kept and evicted as
one, and the unchanged head of one that differs can still be loaded.

Nothing but vLLM and what vLLM brings is imported here, and nothing of the gateway.
"""

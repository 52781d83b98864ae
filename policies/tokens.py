"""Token counts without a tokenizer: good enough for rules, never for a bill."""

ASCII_CHARACTERS_PER_TOKEN = 4
WIDE_TOKENS_PER_CHARACTER = 0.7
"""Chinese, Japanese and Korean: 0.6-0.8 tokens a character in the vocabularies of DeepSeek and Qwen."""


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a text has.

    English runs at about four characters a token, CJK at about 0.7 tokens a character.

    Returns:
        Tokens, rounded up; 0 for an empty text.
    """
    if text.isascii():
        return -(-len(text) // ASCII_CHARACTERS_PER_TOKEN)
    wide = (len(text.encode("utf-8", "surrogatepass")) - len(text)) / 2
    narrow = max(0.0, len(text) - wide)
    return -int(-(narrow / ASCII_CHARACTERS_PER_TOKEN + wide * WIDE_TOKENS_PER_CHARACTER) // 1)

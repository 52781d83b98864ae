"""Cutting claims about difficulty and about which model to use.

A prompt that says "this is easy" or "use the big model" asks for the same work as one that does not. Such
claims are cut before features are computed. Most prompts hold no trigger word and pay one set lookup.
"""

import re
from collections.abc import Iterable

from classifier.text import ascii_words

_TRIGGERS = frozenset({
    "easy", "easier", "simple", "simpler", "trivial", "basic", "straightforward", "effortless", "hard",
    "difficult", "complex", "complicated", "tricky", "challenging", "important", "urgent", "critical",
    "router", "routing", "model", "models", "tier", "llm", "complexity", "difficulty", "instructions",
    "thinking", "reasoning", "no-brainer", "engine",
})  # fmt: skip
_CHINESE_TRIGGER = re.compile("简单|容易|困难|很难|复杂|重要|紧急|模型|忽略|思考|推理")

_ADJECTIVE = (
    r"(?:easy|simple|trivial|basic|straightforward|hard|difficult|complex|complicated|tricky|challenging"
    r"|important|urgent|critical|effortless|no-brainer)"
)
_NOUN = r"(?:question|task|problem|request|prompt|query|one|job|thing|stuff|ask)"
_SIZE = (
    r"(?:big|large|small|cheap|strong|weak|fast|flash|standard|best|smart|powerful|expensive|light"
    r"|lightweight|tiny|mini|premium|top|frontier|advanced|capable|little|slow|heavy)(?:er|est|ger|gest)?"
)
_MODEL = r"(?:model|llm|tier|engine)s?"

_DIFFICULTY = (  # "this is a very easy question", "it is trivial and ..."
    r"\b(?:this|it|that|these|following|mine)(?:'s|\u2019s| is| are| was| should be| must be)(?: \w+){0,4}?"
    rf" {_ADJECTIVE}(?: \w+)?(?: {_NOUN}s?)?(?:\s*$| (?=(?:for|and|so|to|that|but)\b))"
)
_LABEL = rf"^\W*(?:\w+ ){{0,2}}{_ADJECTIVE} {_NOUN}s?\W*$"  # "Easy question:"
_USE = (  # "use the small model"; not "a large language model", nor the standard model of physics
    r"\b(?:us(?:e|ing)|route|send|choose|pick|select|forward|assign|switch|needs?|requires?|deserves?|by|with|to)"
    rf"\b.{{0,30}}\b{_SIZE}(?: (?!language)\w+)? {_MODEL}\b(?! of\b)"
)
_ENOUGH = (
    rf"\b(?:(?:a|the|your|any) )?{_SIZE} {_MODEL}"
    r" (?:is|are|will|would|can|could|should|suffices?|only|please)\b"
    r"(?: (?:good|enough|fine|sufficient|ok|do|suffice))*"
)
_ADDRESS = r"\b(?:note|message|hint|attention|dear|hey|hello|hi)\b.{0,12}\brouter\b|\brouter\s*$"
_ROUTE = r"\b(?:route|routed|routing) (?:this|it|me)\b"
_IGNORE = r"\bignore (?:all |any |the |your )*(?:previous|prior|above|earlier) (?:instruction|rule|prompt)s?"
_EFFORT = (
    r"\b(?:no|not need|n't need|n't require|without|needs?|requires?) (?:\w+ ){0,3}(?:thinking|reasoning)\b"
)
_SETTING = r"\b(?:complexity|difficulty|tier|model) ?(?:is|=|:)+ ?(?:low|high|simple|easy|hard|complex|flash)"
_CHINESE_DIFFICULTY = (
    r"(?:这|此|本|该|以下|下面)(?:个|道|是|题|问题|任务|一)*.{0,8}(?:简单|容易|困难|很难|复杂|重要|紧急)"
    r"(?:的)?(?:问题|题目|题|任务|请求)?\W*$"
)
_CHINESE_LABEL = r"^\W*(?:很|非常)?(?:简单|容易|困难|复杂)的?(?:问题|题目|任务)\W*$"
_CHINESE_USE = (
    r"请?(?:用|使用|选择|选|交给|路由|调用|转给|发给|切换).{0,8}"
    r"(?:大|小|强|弱|便宜|好|快速|高级|昂贵|轻量)(?:的)?模型"
)
_CHINESE_IGNORE = r"忽略.{0,6}(?:之前|以上|前面|上述).{0,4}(?:指令|指示|说明|规则)"
_CHINESE_EFFORT = r"(?:不需要|无需|不用).{0,4}(?:思考|推理)"

_CLAIMS = (
    _DIFFICULTY, _LABEL, _USE, _ENOUGH, _ADDRESS, _ROUTE, _IGNORE, _EFFORT, _SETTING,
    _CHINESE_DIFFICULTY, _CHINESE_LABEL, _CHINESE_USE, _CHINESE_IGNORE, _CHINESE_EFFORT,
)  # fmt: skip
_CLAIM = re.compile("|".join(_CLAIMS), re.IGNORECASE)
_HINT = re.compile(
    r"/\*[^*]{0,120}\b(?:model|tier|route)\b[^*]{0,120}\*/"
    r"|\{[^{}]{0,120}\"(?:tier|complexity|difficulty|route|model)\"[^{}]{0,120}\}",
    re.IGNORECASE,
)
_STOPS = ".!?\n,;:。！？，；："
_CLAUSE = re.compile(f"[^{_STOPS}]*[{_STOPS}]*")
_LONG = 400
_FILLER = frozenset({
    "so", "and", "but", "then", "just", "please", "simply", "you", "can", "could", "should", "will", "would",
    "may", "handle", "answer", "do", "it", "this", "that", "the", "a", "an", "to", "for", "with", "by", "me",
    "i", "we", "is", "are", "also", "now", "here", "as", "only", "enough", "fine", "not", "no", "need",
    "output", "simple", "complex", "easy", "hard", "very", "really", "don", "t", "s",
})  # fmt: skip


def without_steering(text: str) -> str:
    """`text` without such claims; unchanged when nothing else would be left."""
    return cut_claims(text) if has_trigger(text, ascii_words(text)) else text


def has_trigger(text: str, words: Iterable[str]) -> bool:
    """Whether `text`, whose ASCII words are `words`, may hold a claim; most texts do not."""
    return not _TRIGGERS.isdisjoint(words) or (
        not text.isascii() and _CHINESE_TRIGGER.search(text) is not None
    )


def cut_claims(text: str) -> str:
    """`without_steering` for a text that has a trigger."""
    kept = "".join(map(_keep, _CLAUSE.findall(_HINT.sub(" ", text))))
    return kept if kept.strip() else text


def _keep(clause: str) -> str:
    if not has_trigger(clause, ascii_words(clause)):
        return clause
    body = clause.rstrip(_STOPS + " ")
    if len(body) > _LONG:  # keeps the time bounded; who means to steer does it at an end
        return (
            _keep(body[: _LONG // 2])
            + body[_LONG // 2 : -_LONG // 2]
            + _keep(clause[len(body) - _LONG // 2 :])
        )
    rest, claims = _CLAIM.subn(" ", body)
    if not claims:
        return clause
    work = not rest.isascii() or not _FILLER.issuperset(ascii_words(rest))
    return rest + clause[len(body) :] if work else ""

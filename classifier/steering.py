"""Cutting claims about difficulty and about which model to use.

A prompt that says "this is easy" or "use the big model" asks for the same work as one that does not. Such
claims are cut before features are computed. Most prompts hold no trigger word and pay one set lookup.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from classifier.claims import ENGLISH_CORE, ENGLISH_FILLER, FOREIGN_CORE, FOREIGN_FILLER, SCRIPT_CLAIM
from classifier.text import ascii_words, folded, word_set

_TRIGGERS = ENGLISH_CORE | FOREIGN_CORE | {
    "instructions", "engine", "step", "breath", "depends", "genius", "expert", "flash",
    "--model", "--tier", "x-model", "x-route", "x-router", "x-tier", "x-complexity", "x-difficulty",
}  # fmt: skip
_WEAK_PHRASES: Mapping[str, Sequence[str]] = {
    "step": ("step by step", "step-by-step"),
    "breath": ("deep breath",),
    "depends": ("depends on",),
    "genius": ("a genius",),
    "expert": ("expert",),
}
"""Common words, and what a claim holds that has no other trigger: quicker to look for than claims."""

_SCRIPT = re.compile("[\u0370-\u1fff\u3040-\u30ff\uac00-\ud7af]")
_CHINESE_TRIGGER = re.compile(
    "简单|容易|困难|很难|复杂|重要|紧急|模型|忽略|思考|推理|簡單|困難|很難|複雜|緊急|難し"
)

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

_PRESSURE = (  # "my career depends on it", "take a deep breath and think step by step"
    r"\b(?:my|our|his|her) (?:\w+ )?(?:job|career|life|future|exam|grade) depends on (?:it|this|that)\b"
    r"|\b(?:take a deep breath(?: and)?|(?:let(?:'|\u2019)?s |please )?think (?:about (?:it|this) )?"
    r"(?:very )?(?:carefully )?step[- ]by[- ]step)\b"
    r"|\b(?:this|it) is (?:very |really )?(?:important|urgent)(?: to| for) (?:me|us|my \w+)\b"
)
_ROLE = r"^\W*(?:you are|act as|as) (?:a|an|the) (?:\w+ ){0,3}(?:expert|genius)(?: in [\w ]{1,30})?\W*$"
_CLAIMS = (
    _PRESSURE, _ROLE,
    _DIFFICULTY, _LABEL, _USE, _ENOUGH, _ADDRESS, _ROUTE, _IGNORE, _EFFORT, _SETTING,
    _CHINESE_DIFFICULTY, _CHINESE_LABEL, _CHINESE_USE, _CHINESE_IGNORE, _CHINESE_EFFORT,
)  # fmt: skip
_CLAIM = re.compile("|".join(_CLAIMS), re.IGNORECASE)
_KEY = (
    r"(?:x-)?(?:router|routing|route|tier|model|complexity|difficulty|priority|effort|target|level)"
    r"(?:[-_ ]?\w{1,12})?"
)
_VALUE = (
    r"(?:flash|small|mini|cheap|fast|lite|light|weak|low|simple|easy|trivial|basic|standard|strong|large|big|high|hard|complex"
    r"|premium|expert|max|critical|urgent)"
)
_HINT = re.compile(
    r"/\*[^*]{0,120}\b(?:model|tier|route)\b[^*]{0,120}\*/"
    r"|<!--[^>]{0,160}\b(?:model|tier|route|router|difficulty|complexity)\b[^>]{0,160}-->"
    rf"|\{{[^{{}}]{{0,120}}\"{_KEY}\"[^{{}}]{{0,120}}\}}"
    rf"|[\[<@#]{{0,2}}(?:\b|--){_KEY}[\"']?(?: ?[:=] ?| ){{1}}[\"']?{_VALUE}\b[\"']?[\]>/]{{0,3}}",
    re.IGNORECASE,
)
_HINT_WORDS = (
    "rout", "tier", "model", "complexity", "difficulty", "priority", "effort", "target", "level",
)  # fmt: skip
_BLOB = re.compile(r"[A-Za-z0-9+/_-]{32,}={0,2}")
_ROUTE_BLOCK = re.compile(
    r"<(router?|routing|tier|difficulty|complexity)\b[^<>]{0,80}>[^<]{0,200}</\1>", re.IGNORECASE
)


def _without_blobs(text: str) -> str:
    """Cut base64 and the like: long runs of letters of both cases and digits."""
    if max(map(len, text.split()), default=0) < _BLOB_CHARS:
        return text
    return _BLOB.sub(lambda run: " " if _MIXED.issubset(map(_kind, run[0])) else run[0], text)


_MIXED = frozenset("aA0")


def _kind(character: str) -> str:
    return "0" if character.isdigit() else "A" if character.isupper() else "a"


_BLOB_CHARS = 24
_STOPS = ".!?\n,;:。！？，；：؟،।"
_CLAUSE = re.compile(f"[^{_STOPS}]*[{_STOPS}]*")
_LONG = 400
_MOST_CLAIMS = 48
_MOST_LEADING = {":": 6, "：": 6, ",": 3}  # words of what leads to a claim: "note to the router:"
_CHINESE_LEADS = frozenset(
    {"注意：", "提示：", "备注：", "说明：", "注意,", "注意，", "提示:", "注意:", "备注:", "请注意："}
)
_COURTESY = word_set("please thanks thank you por favor s il vous plait bitte per prosze lutfen")
_REST_OF_A_CLAIM = 4  # so many letters of other scripts than Latin beside a claim ask for nothing
_EMPTY = re.compile(r"\n?```\w*\s*```|[{(\[][\s\"':,]*[})\]]|^-{3}\s*-{3}", re.MULTILINE)


def without_steering(text: str) -> str:
    """`text` without such claims; unchanged when nothing else would be left."""
    return cut_claims(text) if has_trigger(text, ascii_words(folded(text))) else text


def has_trigger(text: str, words: Collection[str]) -> bool:
    """Whether `text`, whose ASCII words are `words`, may hold a claim or a blob; most texts do not."""
    if not _TRIGGERS.isdisjoint(words) or max(map(len, words), default=0) >= _BLOB_CHARS:
        return True
    return not text.isascii() and (
        _CHINESE_TRIGGER.search(text) is not None
        or (_SCRIPT.search(text) is not None and SCRIPT_CLAIM.search(text) is not None)
    )


def cut_claims(text: str) -> str:
    """`without_steering` for a text that has a trigger."""
    kept = _cut(text)
    return kept if any(map(str.isalnum, kept)) else text


def is_only_claims(text: str, words: Collection[str]) -> bool:
    """Whether a text, whose ASCII words are `words`, holds nothing but such claims."""
    return has_trigger(text, words) and not any(map(str.isalnum, _cut(text)))


def _cut(text: str) -> str:
    cut = _without_blobs(_without_hints(text))
    kept = _without_claims(_CLAUSE.findall(cut))
    return kept if kept == text else _EMPTY.sub(" ", kept)


def _without_hints(text: str) -> str:
    """Cut settings in the words of a router: "tier: flash", in comments and JSON too."""
    lowered = text.lower()
    if not any(word in lowered for word in _HINT_WORDS):  # which spares a slow search of most texts
        return text
    cut = _HINT.sub(" ", _HINT.sub(" ", text))
    return _ROUTE_BLOCK.sub(" ", cut) if "</" in cut else cut


def _without_claims(clauses: Sequence[str]) -> str:
    """Cut the claims, and what leads to one ("note to the router:") or follows it and says nothing."""
    kept = list(clauses)
    for at in _looked_at(clauses):
        kept[at] = _keep(clauses[at])
    cut = [not left.strip() and bool(clause.strip()) for left, clause in zip(kept, clauses, strict=True)]
    for at, clause in enumerate(clauses):
        before, after = at > 0 and cut[at - 1], at + 1 < len(cut) and cut[at + 1]
        if not cut[at] and ((after and _leads(clause)) or (before and _follows(clause))):
            kept[at] = ""
    return "".join(kept)


def _looked_at(clauses: Sequence[str]) -> Sequence[int]:
    """Which clauses may hold a claim; of very many those at both ends, where who means to steer writes."""
    found = [at for at, clause in enumerate(clauses) if has_trigger(clause, ascii_words(folded(clause)))]
    return found if len(found) <= _MOST_CLAIMS else found[: _MOST_CLAIMS // 2] + found[-_MOST_CLAIMS // 2 :]


def _leads(clause: str) -> bool:
    if clause.strip() in _CHINESE_LEADS:
        return True
    words = ascii_words(folded(clause))
    most = _MOST_LEADING.get(clause.rstrip()[-1:], 0)
    return len(words) <= most and ENGLISH_FILLER.issuperset(words) and not any(map(_is_foreign, clause))


def _follows(clause: str) -> bool:
    words = [word for word in ascii_words(folded(clause)) if not word.isdigit()]
    return _COURTESY.issuperset(words) and not any(map(_is_foreign, clause))


def _keep(clause: str) -> str:
    words = ascii_words(folded(clause))
    body = clause.rstrip(_STOPS + " ")
    if len(body) > _LONG:  # keeps the time bounded; who means to steer does it at an end
        return (
            _keep(body[: _LONG // 2])
            + body[_LONG // 2 : -_LONG // 2]
            + _keep(clause[len(body) - _LONG // 2 :])
        )
    if clause.isascii() and not _may_press(clause, _TRIGGERS.intersection(words)):
        return clause
    if _is_claim(body, words) and "?" not in clause[len(body) :]:
        return ""
    rest, claims = _CLAIM.subn(" ", body)
    if not body.isascii():
        rest, more = SCRIPT_CLAIM.subn(" ", rest)
        claims += more
    if not claims:
        return clause
    if not _asks(rest):
        return ""
    # A claim at the end takes its full stop along.
    return rest.rstrip() if rest.endswith(" ") else rest + clause[len(body) :]


def _may_press(clause: str, triggers: Collection[str]) -> bool:
    """Whether a clause with these triggers can be a claim, as far as common words go."""
    if not _WEAK_PHRASES.keys() >= set(triggers):
        return True
    lowered = clause.lower()
    return any(phrase in lowered for word in triggers for phrase in _WEAK_PHRASES[word])


def _is_claim(body: str, words: Collection[str]) -> bool:
    vocabularies = ((ENGLISH_CORE, ENGLISH_FILLER), (FOREIGN_CORE, FOREIGN_FILLER))
    return any(
        not core.isdisjoint(words) and vocabulary.issuperset(words) for core, vocabulary in vocabularies
    ) and not any(map(_is_foreign, folded(body)))


def _is_foreign(character: str) -> bool:
    return character.isalpha() and not character.isascii()


def _asks(rest: str) -> bool:
    """Whether what stands beside a claim in its clause asks for something itself."""
    return sum(map(_is_foreign, rest)) > _REST_OF_A_CLAIM or not ENGLISH_FILLER.issuperset(ascii_words(rest))

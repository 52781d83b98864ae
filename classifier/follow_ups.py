# ruff: noqa: RUF001 - words of other scripts
"""Telling turns that go on with the task before them, and turns that end it with thanks."""

import re
from collections.abc import Sequence

from classifier.text import word_set

_ENDS = word_set(
    "thanks thank thx ty bye goodbye cheers great cool nice perfect awesome excellent amazing wonderful "
    "brilliant lol haha gracias adios merci danke tschuss obrigado obrigada grazie ciao dzieki dziekuje "
    "tesekkurler bedankt tack kiitos appreciated"
)
_WITH_AN_END = _ENDS | word_set(
    "you u so very much a lot many tons ok okay yes yeah that this it s is was were helps helped works "
    "worked helpful good job work well done for the all your help everything now night day have again "
    "of course really super muchas muchisimas mil beaucoup bien vielen schon muito mille molto bardzo "
    "cok ederim see ya later got answer explanation explaining i appreciate alles"
)
_MOST_WORDS_OF_AN_END = 10
_SCRIPT_END = re.compile(
    "(?:(?:非常|太|十分|真的)?(?:谢谢|多谢|感谢|謝謝|感謝)|再见|再見|拜拜|辛苦了|明白了|太好了|太棒了|"
    "不错|很好|很棒|你|您|啦|了|帮助|的|ありがとう|ございます|ございました|どうも|さようなら|"
    "助かりました|すごい|감사합니다|감사해요|고마워요?|고맙습니다|안녕히|계세요|최고예요|спасибо|"
    "большое|благодарю|отлично|пока|супер|شكرا|جزيلا|لك|مع السلامة|धन्यवाद|शुक्रिया|बहुत|ευχαριστώ|תודה|"
    "רבה|ขอบคุณ|ครับ|ค่ะ|[\\W_\\d])+"
)

_BEGINS = word_set(
    "and also now then next but so or same again continue proceed go yes no ok okay sure yep yeah nope "
    "right looks good fine too more another instead still keep finish retry rerun redo undo commit push "
    "apply extend fix why y ahora sigue continua prosigue et maintenant und jetzt weiter mach e agora "
    "ora adesso i teraz ve simdi dan sekarang lgtm"
)
_ASKS_ON = frozenset({("what", "about"), ("how", "about"), ("what", "if"), ("how", "so"), ("what", "else")})
_POINTS_BACK = word_set(
    "it its that this these those them same again above previous previously earlier before instead too "
    "also rest other others first second third last step part version proof answer solution result code "
    "yours we our eso esto lo mismo misma tambien anterior ca cela meme aussi precedent das dasselbe "
    "gleiche auch noch vorige isso isto mesmo tambem anche stesso quello both either one former latter "
    "you"
)
_CHANGES = word_set("unrelated different separate aside btw")
_SCRIPT_BACK = re.compile(
    "继续|接着|然后|接下来|下一步|再|那|这|它|同样|一样|上面|刚才|之前|前面|还有|也|呢|换成|改成|改为|"
    "其余|剩下|第[一二三四五六两]|繼續|接著|然後|這|同樣|剛才|続け|次|それ|これ|その|この|同じ|同様|"
    "上の|さっき|もう|では|계속|그[럼것거]|이것|이거|같은|다음|또|위의|아까|продолж|дальше|теперь|то же|"
    "тоже|также|ещё|еще|это|его|а если|و(?:الآن|ماذا)|تابع|استمر|أكمل|الآن|نفس|هذا|أيضا|जारी|अब |वही|"
    "इसे|यह|भी|आगे|συνέχισε|τώρα|המשך|עכשיו|ต่อ|แล้ว|เหมือน"
)
_NEW_TOPIC = re.compile("换个话题|另外问|无关|题外话|別件|話は変わ|다른 질문|другой вопрос|другая тема")
_BARE_UNITS = 3.0
"""A turn of at most so many words asks for nothing by itself."""


def ends_the_task(words: Sequence[str], text: str) -> bool:
    """Whether a turn says thanks, or goodbye, and nothing else."""
    if words:
        return (
            len(words) <= _MOST_WORDS_OF_AN_END
            and not _ENDS.isdisjoint(words)
            and _WITH_AN_END.issuperset(words)
        )
    return (
        bool(text)
        and not text.isascii()
        and _SCRIPT_END.fullmatch(text, 0, 60) is not None
        and len(text) < 60
    )


def points_back(words: Sequence[str], text: str, units: float) -> bool:
    """Whether a turn cannot be understood without the one before it."""
    if not _CHANGES.isdisjoint(words[:3]) or _NEW_TOPIC.search(text):
        return False
    if (
        units <= _BARE_UNITS
        or tuple(words[:2]) in _ASKS_ON
        or (words and words[0] in _BEGINS)
        or not _POINTS_BACK.isdisjoint(words)
    ):
        return True
    return not text.isascii() and _SCRIPT_BACK.search(text) is not None

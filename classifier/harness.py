"""Cutting what agent harnesses put around a question: reminders, rules, the state of an editor, files.

Such text is nearly the same each time and belongs to the product, not to the question. A block counts as
such by the name of its tag or heading. Tags around the question itself are cut and the question stays, and
so does whatever stands outside of any block.
"""

import re
from collections.abc import Iterator
from itertools import islice

from classifier.text import word_set

_SEARCHED = 1 << 17  # so many characters from either end of a text are searched for blocks
_VIEW = 1 << 13  # so many are searched for headings, which takes longer
_TRIES = 256  # so many tags and headings of a text are looked at
_LONG_BLOCK = 200  # a block of any two-word name is taken for a harness's from this length on

_OPEN = re.compile(r"<([A-Za-z][\w.-]{2,40})(?:\s[^<>]{0,200})?>")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_AROUND = word_set(
    "reminder reminders system env environment detail details info information context contexts "
    "metadata additional rule rules guideline guidelines policy policies convention conventions memory "
    "memories history state states files opened tabs editor selection selected ide workspace cwd git "
    "status project terminal todo todos tool tools result results output observation stdout stderr "
    "attachment attachments attached document documents documentation search retrieved snippet snippets "
    "knowledge preference preferences config configuration settings hook commands available skill "
    "skills agent agents mcp permission permissions custom recent summary cursor diagnostic diagnostics "
    "linter session reference references example examples background repo repository codebase persona "
    "role constraints progress management sources source passages passage data docs browser page notes "
    "note"
)
_INSIDE = word_set(
    "query question request task prompt message ask objective goal instruction instructions issue user "
    "human problem"
)
_HTML = word_set("details summary output data source meta")

# "# Rules", "**Context:**", "[SYSTEM]", "== RULES ==", "Question: ...", "END OF CONTEXT", "Context is below"
_HEADING = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+(?P<marked>[^\n]{1,80})"
    r"|(?P<open>[*=\[-]{1,5} ?)?(?P<label>[A-Z\u4e00-\u9fff][^\n:：.?!。？！*=\]]{1,40}?)"
    r"(?(open)[:：]?[ ]?[*=\]-]{1,5}[:：]?|[:：])"
    r"|[-=* ]*(?P<bound>(?:BEGIN|START|END)\b(?: OF)?[A-Z _]{1,40}?)[-=* ]*$"
    r"|(?P<said>(?:Context|The following|Below|Here)\b[^\n]{0,60}"
    r"\b(?:below|follows|following|context)\b[^\n]{0,20}[.:])[ \t]*$)"
    r"[ \t]*(?P<inline>[^\n]*)$",
    re.MULTILINE,
)
_END = re.compile(r"END\b")
_REPLY = re.compile(r"(?:answer|response|assistant|output|reply|回答|助手)\W*$", re.IGNORECASE)
_ASKED = re.compile(
    r"^(?:(?:my|the|current|actual|final|new|latest|here is (?:my|the)|user(?:'s)?|human|"
    r"customer(?:'s)?)\s+)*(?:request|question|query|task|prompt|message|input|ask|problem)\b(?: (?:for|"
    r"to|from) [\w ]{1,20})?\W*$|^(?:user|human)$|^(?:用户|我的|当前|实际|最终)?的?(?:问题|请求|提问|"
    r"输入|任务|需求)$",
    re.IGNORECASE,
)
_SURROUNDING = re.compile(
    r"\b(?:context|rules?|guidelines?|policy|policies|conventions?|environment|reminders?|workspace|ide|"
    r"editor|open (?:files|tabs)|active (?:file|selection)|project|repository|system|settings|available "
    r"tools|tools|memory|memories|history|documents?|sources?|snippets?|preferences|instructions|"
    r"agents\.md|notes?|background|persona|role|metadata|session|passages?|date|os)\b|规则|规范|环境|"
    r"上下文|背景|系统|设定|角色|要求|约束|工具|资料|文档|历史|注意事项|记忆|项目",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"\s*(?:you are|you're|act as|your role|as an ai|你是|你现在是|您是|请你扮演)", re.IGNORECASE
)
_RULE = re.compile(
    r"\s*(?:[-*•]|\d+[.)、]|you (?:are|must|should|can|may|have|will)|always|never|do not|don't|follow|"
    r"rules?\b|guidelines?\b|remember|important|be |respond|when |your |请始终|必须|不要|禁止|规则)",
    re.IGNORECASE,
)
_TOOL_TURN = re.compile(
    r"\s*(?:\[[\w.-]{2,40}(?: for [^\]\n]{0,200})?\] Result:|EXECUTION RESULT of|observation:|tool "
    r"(?:output|result):)",
    re.IGNORECASE,
)


def without_harness(text: str) -> str:
    """`text` without such blocks; "" when it holds nothing else."""
    if len(text) > 2 * _SEARCHED:
        text = f"{text[:_SEARCHED]}\n{text[-_SEARCHED:]}"
    if "</" in text:
        text = _without_blocks(text)
    if "\n" not in text:
        return text
    if _TOOL_TURN.match(text):
        return ""
    view = text if len(text) <= 2 * _VIEW else f"{text[:_VIEW]}\n{text[-_VIEW:]}"
    left = _without_sections(_without_role(view))
    return text if left == view else left


def _without_blocks(text: str) -> str:
    kept: list[str] = []
    end = 0
    for tag in islice(_OPEN.finditer(text), _TRIES):
        if tag.start() < end:
            continue
        name = tag[1]
        closing = f"</{name}>"
        close = text.find(closing, tag.end())
        if close < 0:
            continue
        inside = _is_the_question(name)
        if not inside and not _is_around(name, text, tag.start(), close - tag.end()):
            continue
        kept.append(text[end : tag.start()])
        if inside:
            # Its content is read on; only the tags go.
            text = f"{text[:close]}\n{text[close + len(closing) :].lstrip()}"
            end = tag.end()
        else:
            kept.append("\n")
            end = close + len(closing)
    kept.append(text[end:])
    return "".join(kept).strip() if any(c.isalnum() for part in kept for c in part) else ""


def _parts(name: str) -> frozenset[str]:
    return frozenset(part.lower() for part in _PARTS.findall(name))


def _is_the_question(name: str) -> bool:
    parts = _parts(name)
    return not parts.isdisjoint(_INSIDE) and parts.isdisjoint(_AROUND)


def _is_around(name: str, text: str, start: int, length: int) -> bool:
    parts = _parts(name)
    at_line_start = not text[max(0, start - 40) : start].rpartition("\n")[2].strip()
    if len(parts) > 1:
        return not parts.isdisjoint(_AROUND) or (at_line_start and length >= _LONG_BLOCK)
    return at_line_start and not parts.isdisjoint(_AROUND) and parts.isdisjoint(_HTML)


def _without_role(text: str) -> str:
    """Cut leading paragraphs that say who the model is and what its rules are, when a question follows."""
    if not _ROLE.match(text):
        return text
    paragraphs = re.split(r"\n[ \t]*\n", text, maxsplit=_TRIES)
    at = 1
    while at < len(paragraphs) - 1 and _RULE.match(paragraphs[at]):
        at += 1
    return "\n\n".join(paragraphs[at:]) if at < len(paragraphs) else text


def _without_sections(text: str) -> str:
    """Cut sections whose heading says that they surround the question."""
    headings = [each for each in islice(_HEADING.finditer(text), _TRIES) if _title(each)]
    titles = [_title(each) for each in headings]
    around = list(map(_surrounds, titles))
    if not any(around):
        return text
    kept = [text[: headings[0].start()], *_sections(text, headings, titles, around)]
    left = "\n".join(part.strip() for part in kept if part.strip())
    return left if any(c.isalnum() for c in left) else text


def _title(heading: re.Match[str]) -> str:
    return (heading["marked"] or heading["label"] or heading["bound"] or heading["said"] or "").strip(
        " *#:：[]=-"
    )


def _surrounds(title: str) -> bool:
    return _SURROUNDING.search(title) is not None and not (_ASKED.match(title) or _END.match(title))


def _sections(
    text: str, headings: list[re.Match[str]], titles: list[str], around: list[bool]
) -> Iterator[str]:
    """What stays of each section."""
    asked = any(map(_ASKED.match, titles))
    for at, heading in enumerate(headings):
        last = at + 1 == len(headings)
        end = len(text) if last else headings[at + 1].start()
        if not around[at]:
            body = f"{heading['inline'] or ''}\n{text[heading.end() : end]}"
            bare = _ASKED.match(titles[at]) or _END.match(titles[at]) or _REPLY.match(titles[at])
            yield body if bare else text[heading.start() : end]
        elif last and not asked:
            yield _last_paragraph(text[heading.end() : end])


def _last_paragraph(section: str) -> str:
    """What follows the last blank line of a section, when it reads like a question and not like a rule."""
    body = section.rstrip()
    at = body.rfind("\n\n")
    tail = body[at + 2 :] if at >= 0 else ""
    return "" if _RULE.match(tail) or tail.startswith(("#", "```", "|")) else tail

"""Cue words of the features, English and Chinese.

English cues are single words or pairs of neighbouring words, Chinese ones are strings of two to four
characters. Looking them up costs one dictionary access a word, whatever the number of cues.
"""

import re
from collections.abc import Iterable, Mapping

from classifier.languages import LATIN, LATIN_PAIRS, OTHER

CUE_NAMES = (
    "prove",
    "compute",
    "suppose",
    "steps",
    "build",
    "transform",
    "creative",
    "smalltalk",
    "asks_fact",
    "constraints",
    "technical",
    "format",
    "negation",
)

_ENGLISH: Mapping[str, str] = {
    "prove": (
        "prove proof proves proven disprove derive derivation deduce lemma theorem corollary rigorous "
        "rigorously justify induction contradiction counterexample iff axiom"
    ),
    "compute": (
        "find compute calculate determine evaluate solve simplify estimate factor integrate "
        "differentiate minimize maximize minimise maximise probability expected remainder sum product "
        "ratio"
    ),
    "suppose": "if suppose let given assume assuming consider where when such whose denote",
    "steps": (
        "step steps analyze analyse analysis compare contrast evaluate discuss explain why tradeoff "
        "tradeoffs trade-offs reasoning reason argue implications every each showing"
    ),
    "build": (
        "implement implementation design debug refactor optimize optimise architecture deadlock race "
        "schema migrate migration parser compiler scheduler benchmark reproduce bug fails failing "
        "crashes leak leaks traceback"
    ),
    "transform": (
        "summarize summarise summary translate translation rewrite rephrase paraphrase proofread "
        "shorten polish correct spelling grammar reword bullet tldr convert formal friendlier politer"
    ),
    "creative": (
        "poem haiku story joke song lyrics slogan caption tweet limerick rhyme birthday toast riddle "
        "name names tagline greeting invitation"
    ),
    "smalltalk": (
        "hi hello hey thanks thank bye morning evening please you your favorite favourite recommend "
        "suggest ideas tips dinner lunch weekend gift movie recipe lol ok okay cool nice"
    ),
    "asks_fact": "who when where capital country born invented wrote meaning mean means stand called",
    "constraints": (
        "must without cannot only exactly except unless constraint constraints guarantee guarantees "
        "ensure bounded limit limited least most never always require requires requirement requirements"
    ),
    "technical": (
        "algorithm algorithms theorem integral matrix complexity concurrency concurrent distributed "
        "thread threads polynomial prime primes modulo protocol transaction transactions kernel "
        "linearizable linearizability lock-free lock mutex queue heap tree graph graphs recursion "
        "recursive dynamic asymptotic np-hard np-complete eigenvalue eigenvalues derivative convergence "
        "converges topology continuous differentiable stochastic variance likelihood equation equations "
        "integer integers bijection cache consistency replication partition latency throughput "
        "consensus raft paxos sql query index postgres kubernetes async asynchronous gradient tensor "
        "entropy equilibrium enthalpy voltage momentum quantum isomorphic sequence vertices vertex "
        "invariant optimal"
    ),
    "format": (
        "words word sentences paragraph paragraphs essay json table csv markdown bullets list format "
        "xml yaml pages"
    ),
    "negation": "not no none neither nor false incorrect wrong don didn doesn isn aren wasn weren won",
}

_ENGLISH_PAIRS: Mapping[str, str] = {
    "prove": "show_that prove_that if_and",
    "compute": "how_many how_much",
    "steps": "step_by in_detail trade_offs edge_cases",
    "build": "write_a_function time_complexity lock_free race_condition memory_leak",
    "transform": "fix_the make_it make_this turn_this",
    "smalltalk": "how_are good_morning good_night what_s can_you could_you",
    "asks_fact": "what_is what_are who_is who_was what_does",
    "constraints": "at_least at_most no_more as_few",
    "technical": "np_hard np_complete lock_free big_o real_number positive_integer",
}

_CHINESE: Mapping[str, str] = {
    "prove": "证明 推导 求证 证出 反证 归纳法 充要 引理 定理 严格",
    "compute": "计算 求解 求出 多少 求值 概率 最大值 最小值 化简 期望 余数 之和",
    "suppose": "假设 如果 设有 已知 给定 任意 若干 其中 对于 满足 对任意",
    "steps": "逐步 步骤 分析 比较 论述 解释 为什么 原因 权衡 详细 分别 每一步 优缺点",
    "build": "实现 设计 调试 重构 优化 架构 死锁 编写 排查 修复 报错 崩溃 泄漏 迁移",
    "transform": "总结 翻译 改写 润色 概括 摘要 缩写 纠正 语法 错别字 整理 译成 改成",
    "creative": "写诗 一首 故事 笑话 祝福 标语 口号 文案 歌词 俳句 起名 名字 谜语 朋友圈",
    "smalltalk": (
        "你好 您好 谢谢 再见 早上好 晚上好 早安 晚安 推荐 建议 今天 周末 晚饭 礼物 电影 食谱 好吃 帮我 哈喽"
    ),
    "asks_fact": "是谁 哪里 哪个 哪年 首都 什么意思 是什么 什么时候 哪一年 几月 星期几 叫什么",
    "constraints": "必须 不能 不得 至少 至多 最多 仅限 保证 要求 限制 除非 不超过 约束 确保",
    "technical": (
        "算法 复杂度 并发 分布式 线程 多项式 素数 质数 整数 矩阵 积分 导数 方程 函数 事务 一致性 内核 "
        "协议 无锁 队列 二叉树 图论 递归 动态规划 特征值 收敛 数列 不等式 几何 向量 缓存 数据库 索引 "
        "延迟 吞吐 共识 内存序 线性一致 熵"
    ),
    "format": "个字 字以内 表格 列表 格式 段落 作文 论文 字数",
    "negation": "没有 并非 错误",
}


def _invert(table: Mapping[str, str]) -> dict[str, str]:
    return {cue: name for name, cues in table.items() for cue in cues.split()}


def _index(terms: Iterable[str]) -> dict[str, tuple[int, ...]]:
    lengths: dict[str, set[int]] = {}
    for term in terms:
        lengths.setdefault(term[0], set()).add(len(term))
    return {first: tuple(sorted(found, reverse=True)) for first, found in lengths.items()}


def _starts(terms: Iterable[str]) -> re.Pattern[str]:
    """Where a term may begin: its first character, and a second one of some term after it.

    Most characters are passed over in C that way.
    """
    firsts = "".join(sorted({term[0] for term in terms}))
    seconds = "".join(sorted({term[1] for term in terms if len(term) > 1}))
    alone = "".join(sorted(term for term in terms if len(term) == 1))
    return re.compile(f"[{firsts}](?:(?=[{seconds}])" + (f"|(?<=[{alone}]))" if alone else ")"))


class ChineseTerms:
    """A set of terms, Chinese or of another script, that is found in a text by one walk over it."""

    __slots__ = ("_lengths", "_starts", "_terms")

    def __init__(self, terms: Iterable[str]) -> None:
        self._terms = frozenset(terms)
        self._lengths = _index(self._terms)
        self._starts = _starts(self._terms)

    def find(self, text: str) -> list[str]:
        """Every term in `text`, in order; the longest wins where several begin at one place."""
        found: list[str] = []
        for start in self._starts.finditer(text):
            at = start.start()
            for length in self._lengths[text[at]]:
                if (term := text[at : at + length]) in self._terms:
                    found.append(term)
                    break
        return found


def _pairs(table: Mapping[str, str]) -> dict[tuple[str, str], str]:
    return {(pair.split("_")[0], pair.split("_")[1]): name for pair, name in _invert(table).items()}


_SCRIPTS = {term.replace("_", " "): name for term, name in _invert(OTHER).items()}
_HAN = re.compile("[\u3400-\u9fff]+")

ENGLISH_CUES: Mapping[str, str] = _invert(LATIN) | _invert(_ENGLISH)
ENGLISH_PAIR_CUES: Mapping[tuple[str, str], str] = _pairs(LATIN_PAIRS) | _pairs(_ENGLISH_PAIRS)
CHINESE_CUES: Mapping[str, str] = {
    term: name for term, name in _SCRIPTS.items() if _HAN.fullmatch(term)
} | _invert(_CHINESE)
"""Simplified and traditional Chinese, and what Japanese writes in Chinese characters alone."""
CHINESE_TERMS = ChineseTerms(CHINESE_CUES)
SCRIPT_CUES: Mapping[str, str] = {term: name for term, name in _SCRIPTS.items() if not _HAN.fullmatch(term)}
SCRIPT_TERMS = ChineseTerms(SCRIPT_CUES)

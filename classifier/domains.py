"""Which field a request belongs to, by weighted cue words in English and Chinese.

Every distinct cue counts once. A domain needs cues worth two points, so that a lone "law" or "patient" in
a talk about code or queues names nothing; the domain with most points wins.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from classifier.lexicon import ChineseTerms
from classifier.reading import Reading, read
from classifier.text import Marks, ascii_signs

DOMAINS = ("legal", "medical", "finance", "safety", "code", "math", "extraction", "creative", "chat")
"""All domains; "chat" is what none of the others claims."""

_ENOUGH = 2.0

# Points -> cues. A pair of neighbouring words is joined by "_".
_LEGAL: Mapping[float, str] = {
    3.0: "force_majeure severability hold_harmless governing_law power_of_attorney",
    2.5: (
        "indemnify indemnifying indemnification indemnified indemnity plaintiff plaintiffs hereinafter "
        "民法典 有期徒刑"
    ),
    2.0: (
        "defendant lawsuit statute statutes litigation arbitration negligence tort felony misdemeanor "
        "nda non-disclosure probate testator breach_of 违约责任 本合同 诉讼 起诉 原告 被告 仲裁 刑法 "
        "劳动法 判刑"
    ),
    1.5: (
        "statutory attorney lawyer contractual liability liable jurisdiction evict eviction trademark "
        "gdpr herein intellectual_property notwithstanding pursuant custody divorce subpoena severance "
        "sue suing sued 违约 甲方 乙方 法院 判决 律师 侵权 依法 劳动合同 知识产权 违法 合法 刑事 民事 "
        "司法"
    ),
    1.0: (
        "contract clause agreement legal legally court breach hereby thereof lease copyright patent "
        "damages warranties dismissal dismissed non-compete covenant 合同 条款 赔偿 法律 法规 犯罪 离婚 "
        "担保 抵押 双方 租约 辞退 纠纷 解雇"
    ),
    0.75: "law laws landlord tenant shall parties 房东 房客 权利 义务",
    0.5: "judge party confidential termination employer settlement warranty 签字 生效 解除 继承",
}
_MEDICAL: Mapping[float, str] = {
    2.5: "chest_pain shortness_of 胸痛 胸闷 用药剂量",
    2.0: (
        "dosage dosages ibuprofen paracetamol acetaminophen amoxicillin antibiotic antibiotics insulin "
        "chemotherapy diabetes diabetic asthma tumor tumour metformin hypertension aspirin "
        "contraindicated contraindications warfarin 布洛芬 阿莫西林 抗生素 胰岛素 糖尿病 高血压 化疗 "
        "肿瘤 哮喘 副作用 剂量 阿司匹林 对乙酰氨基酚 头孢"
    ),
    1.5: (
        "diagnosis diagnosed diagnose prescription prescribed side_effects blood_pressure cancer nausea "
        "dizziness vomiting vaccine vaccination medication medications ecg biopsy seizure "
        "stroke_symptoms 诊断 处方 疫苗 癌症 恶心 呕吐 头晕 过敏 血压 确诊 皮疹 药物 服用 吃药 怀孕"
    ),
    1.0: (
        "symptom symptoms dose fever rash headache headaches migraine pregnant pregnancy infection "
        "allergic allergy patient patients pain ache cough mg surgery swollen swelling disease clinical "
        "tablets 症状 发烧 咳嗽 头痛 腹痛 疼痛 感染 手术 病人 患者 感冒 肚子疼 治疗 毫克 医院"
    ),
    0.5: "doctor hospital treatment medicine hurts throat knee 医生 药",
}
_FINANCE: Mapping[float, str] = {
    2.5: "ebitda capital_gains balance_sheet 个人所得税 资产负债表",
    2.0: (
        "mortgage interest_rate interest_rates etf etfs dividend dividends 401k cash_flow annuity "
        "hedge_fund index_fund index_funds 股票 基金 房贷 理财 财报 年化 股息 市盈率"
    ),
    1.5: (
        "invest investing investment investments portfolio tax taxes loan loans crypto bitcoin "
        "amortization valuation stock_price shareholders 利率 投资 贷款 税率 比特币 债券 净利润 估值"
    ),
    1.0: (
        "stocks bond bonds inflation retirement savings roi revenue broker deductible credit_card "
        "refinance pension shares debt 通货膨胀 退休金 存款 收益 保险 债务 信用卡 缴税"
    ),
    0.5: "stock budget interest bank income 银行 利息 收入",
}
_SAFETY: Mapping[float, str] = {
    3.0: (
        "suicide suicidal kill_myself hurt_myself self-harm self_harm end_my_life child_abuse 自杀 自残 "
        "不想活 轻生"
    ),
    2.0: (
        "explosives explosive malware ransomware hack_into pipe_bomb make_a_bomb meth nerve_agent "
        "bioweapon overdose 炸弹 炸药 毒药 毒品 勒索软件 黑进 家暴"
    ),
    1.5: "bomb phishing poison stalking doxx keylogger 投毒 钓鱼网站",
    1.0: "weapon weapons abuse untraceable 武器 虐待",
}
_CODE: Mapping[float, str] = {
    2.5: "stack_trace segmentation_fault null_pointer pull_request",
    2.0: (
        "python javascript typescript java kotlin golang rust sql html css regex kubernetes docker "
        "traceback compiler mutex deadlock refactor goroutine postgres mysql linux bash git github npm "
        "api django react node node.js c20 lock-free websocket demeter 代码 编程 编译 死锁 脚本 数据库 "
        "报错 线程 无锁 接口 爬虫 函数式"
    ),
    1.5: (
        "debug function_to linked_list unit_test unit_tests json_parser recursion binary_tree hash_map "
        "async 调试 变量 队列 递归 算法"
    ),
    1.0: (
        "code function class method bug queue algorithm script array string exception variable loop "
        "thread threads server database query implement cache lru 函数 类 方法 数组 字符串 服务器 实现 "
        "缓存"
    ),
}
_MATH: Mapping[float, str] = {
    2.0: (
        "theorem integral polynomial eigenvalue eigenvalues derivative lemma modulo irrational prove "
        "quadratic trigonometric logarithm show_that 证明 求证 积分 导数 矩阵 多项式 不等式 方程 质数 "
        "素数 数列 椭圆 微分"
    ),
    1.5: (
        "equation triangle matrix integers integer prime primes probability algebra geometry calculus "
        "fraction 概率 三角形 几何 函数 整数"
    ),
    1.0: (
        "solve compute calculate sum product angle square root divisible positive remainder sqrt graph "
        "求 计算 正整数 最大值 最小值"
    ),
    0.5: "find number evaluate 多少",
}
_EXTRACTION: Mapping[float, str] = {
    2.0: (
        "extract classify categorize categorise named_entities positive_or label_the parse_the 提取 "
        "抽取 找出 归类 正面还是 好评还是 分类为"
    ),
    1.5: "sentiment as_json json_format spam 情感 分类 标签",
    1.0: "entities json csv fields label table list_all 字段 表格",
}
_CREATIVE: Mapping[float, str] = {
    2.0: (
        "poem poems haiku limerick lyrics slogan screenplay sonnet short_story bedtime_story fairy_tale "
        "tagline joke 写诗 小诗 俳句 歌词 故事 小说 笑话 文案 对联 口号 一首诗 诗"
    ),
    1.5: "story song novel fiction character verse rhyme caption 剧本 童话",
    0.5: "write tell funny imagine 写 讲 编",
}
_TABLES: Mapping[str, Mapping[float, str]] = {
    "legal": _LEGAL,
    "medical": _MEDICAL,
    "finance": _FINANCE,
    "safety": _SAFETY,
    "code": _CODE,
    "math": _MATH,
    "extraction": _EXTRACTION,
    "creative": _CREATIVE,
}

_CODE_MARKS = Marks(
    "```", "def ", "#include", "</", "()", "=>", "==", "};", "return ", "self.", "SELECT "
)  # fmt: skip
_MATH_MARKS = Marks("\\frac", "\\sum", "\\int", "\\sqrt", "^2", "^n", "f(x)", "²")
# "1 + 2". The pattern begins with the operator, which is rarer than a digit and quicker to look for.
_ARITHMETIC = re.compile(r"[-+*/^×÷](?:(?<=\d.)|(?<=\d .)) ?\d")
_OPERATORS = frozenset(b"-+*/^")
_HARMLESS = re.compile(r"\b(?:bath|photo|seed|cherry) bombs?\b|\bbombs?hell\b", re.IGNORECASE)


def _claims() -> dict[str, tuple[tuple[str, float], ...]]:
    found: dict[str, list[tuple[str, float]]] = {}
    for domain, table in _TABLES.items():
        for points, cues in table.items():
            for cue in cues.split():
                found.setdefault(cue, []).append((domain, points))
    return {cue: tuple(claims) for cue, claims in found.items()}


_CLAIMS = _claims()
_CUES = frozenset(_CLAIMS)
_PAIRS = frozenset(cue for cue in _CLAIMS if "_" in cue)
_PAIR_STARTS = frozenset(cue.split("_", 1)[0] for cue in _PAIRS)
_TERMS = ChineseTerms(cue for cue in _CLAIMS if not cue.isascii())


def detect_domain(text: str) -> str:
    """The domain of `text`: one of DOMAINS. Bounded for any length; never raises."""
    return domain_of(read(text))


def domain_of(reading: Reading) -> str:
    """The domain of a text that was read already."""
    found = _found(reading)
    code, math = _code_and_math(reading)
    if not (found or code or math):
        return "chat"
    points: dict[str, float] = dict.fromkeys(DOMAINS, 0.0)
    points["code"], points["math"] = code, math
    for cue in found:
        for domain, worth in _CLAIMS[cue]:
            points[domain] += worth
    if points["safety"] and _HARMLESS.search(reading.text):
        points["safety"] -= 1.5
    best = max(DOMAINS, key=points.__getitem__)
    return best if points[best] >= _ENOUGH else "chat"


def _code_and_math(reading: Reading) -> tuple[float, float]:
    """The points of marks, as against cue words."""
    text = reading.text
    signs = reading.signs if len(reading.stem) == len(text) else ascii_signs(text)
    code = _CODE_MARKS.count(text, signs)
    math = _MATH_MARKS.count(text, signs) or (
        not (text.isascii() and _OPERATORS.isdisjoint(signs)) and _ARITHMETIC.search(text)
    )
    return min(4.0, 1.25 * code), 2.0 if math else 0.0


def _found(reading: Reading) -> Collection[str]:
    """The cues in it; the marks of two and three words stand in `_CLAIMS` joined by "_"."""
    found = _CUES & reading.distinct
    if not _PAIR_STARTS.isdisjoint(reading.distinct):
        found = found.union(_pairs(reading.words))
    return found.union(_TERMS.find(reading.text)) if reading.chinese else found


def _pairs(words: Sequence[str]) -> Iterator[str]:
    for at in [at for at, word in enumerate(words) if word in _PAIR_STARTS]:
        yield from _PAIRS.intersection(("_".join(words[at : at + 2]), "_".join(words[at : at + 3])))

"""Which field a text belongs to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from classifier.domains import DOMAINS, detect_domain

CASES = {
    "legal": (
        "The indemnifying party shall hold harmless the other party against all losses.",
        "本合同自双方签字之日起生效，任何一方违约应承担违约责任。",
        "Can my landlord evict me without notice?",
        "公司无故辞退我，可以申请劳动仲裁吗？",
        "What is the statute of limitations for a personal injury lawsuit?",
    ),
    "medical": (
        "What is the maximum daily dose of ibuprofen for an adult?",
        "I have chest pain and shortness of breath.",
        "孩子发烧39度，布洛芬怎么吃？",
        "高血压患者可以吃这个药物吗？",
        "感冒了多喝水有用吗？",
    ),
    "finance": (
        "Should I refinance my mortgage when interest rates fall?",
        "这只股票的市盈率太高了，还值得投资吗？",
    ),
    "safety": ("I want to kill myself.", "我不想活了"),
    "code": (
        "my code violates the law of Demeter",
        "patient waiting in my queue class",
        "用python写一个爬虫",
        "class Patient:\n    def dosage(self):\n        return self.dose == 3",
    ),
    "math": ("Prove that sqrt(2) is irrational.", "求方程 x^2-3x+2=0 的根", "What is 12 * 9?"),
    "extraction": ("Classify this review as positive or negative: lovely!", "提取下面文本中的人名"),
    "creative": ("Write a haiku about rain", "写一首关于春天的诗"),
    "chat": (
        "What is the capital of France?",
        "你好，今天怎么样",
        "who played the judge in that court movie?",
        "write an email to my landlord asking to fix the heating",
        "be patient with me",
        "how do I make a bath bomb",
        "What's the law of gravity?",
    ),
}


@pytest.mark.parametrize(
    ("domain", "text"), [(domain, text) for domain, texts in CASES.items() for text in texts]
)
def test_a_text_is_put_in_its_field(domain: str, text: str):
    assert detect_domain(text) == domain


@given(st.text(st.characters(codec=None), max_size=200), st.integers(1, 500))
def test_every_text_has_one_of_the_domains(text: str, times: int):
    assert detect_domain(text * times) in DOMAINS

# ruff: noqa: RUF001 - claims in other scripts
"""Words that claims about difficulty, importance, and which model to use are made of.

A clause is such a claim when it has a core word and no word from outside of the vocabulary.
"""

import re

from classifier.text import word_set

ENGLISH_CORE = word_set(
    "easy easier easiest simple simpler simplest trivial trivially basic straightforward effortless "
    "hard harder hardest difficult complex complicated tricky challenging important urgent urgently "
    "critical crucial router routing route model models tier llm complexity difficulty classifier "
    "classified pre-classified classification dispatcher escalate escalated downgrade downgraded career "
    "tip child kid kindergarten beginner thinking reasoning no-brainer brainer cheap cheapest expensive "
    "gateway orchestrator scorer"
)
ENGLISH_FILLER = ENGLISH_CORE | word_set(
    "a an the this that these it its is are was were be been being will would can could should must may "
    "might do does did done don t s ll re ve m i you we me my our us your they one ones some any all no "
    "not nothing none only just quite very really super extremely pretty rather so too such even ever "
    "here there now right please kindly thanks and or but for to of in on at by with from as than if "
    "because since about into question questions task tasks request requests prompt prompts query "
    "problem job thing stuff ask message following next above below note notes system hint info fyi ps "
    "reminder attention warning dear hello hey hi quick small smaller smallest big bigger biggest large "
    "larger largest lightweight light tiny mini flash fast fastest slow strong stronger strongest weak "
    "weaker best better good enough fine suffice suffices sufficient powerful smart smartest standard "
    "premium top frontier advanced capable low lower lowest high higher highest medium level score "
    "rating 0 1 2 3 5 10 100 out use using used choose pick select send handle handled answer answered "
    "answering answers respond reply output say return treat mark marked label labelled rate rated "
    "consider considered perfect 200 20 50 500 pay need needs needed require required requires want "
    "have has had get take takes little lot much bit more most less least extra effort time care work "
    "person people anyone anybody everyone minute minutes second seconds life future depends depend "
    "depending deserves must-have user says said claims told person believe trust category class type "
    "kind priority instructions instruction previous ignore simply what who which"
)
FOREIGN_CORE = word_set(
    # Easy, hard, important, model: in Spanish, French, German, Portuguese, Italian, Dutch, Polish, Turkish,
    # Indonesian, Swedish.
    "facil faciles sencilla sencillo dificil dificiles complicada complicado importante importantes "
    "urgente urgentes modelo modelos difficile difficiles compliquee complique triviale facile faciles "
    "modele modeles modeli modello einfach einfache einfacher einfaches leicht leichte schwer schwere "
    "schwierig schwierige schwieriges wichtig wichtige dringend modell simples complexa semplice "
    "makkelijk makkelijke eenvoudig eenvoudige moeilijk moeilijke belangrijk latwe proste trudne wazne "
    "kolay zor onemli modeli modelini mudah sulit penting enkel simple trivial urgent important lattare "
    "svar svart viktigt enrutador routeur roteador"
)
FOREIGN_FILLER = FOREIGN_CORE | word_set(
    "esta este esto es son una un pregunta preguntas tarea problema solicitud muy bastante realmente "
    "por favor usa usar utiliza use el la lo los las de del al para con pequeno grande barato rapido "
    "potente fuerte mejor peor mas menos nota que basta puede responder no necesita c une cette ce cet "
    "question tache probleme demande est tres vraiment assez utilisez utilise employez le les petit "
    "grand rapide puissant meilleur plus moins pour avec suffit s il vous te plait au du dies das ist "
    "eine ein einen frage aufgabe sehr ganz wirklich bitte nutze verwende benutze nimm das dieses "
    "kleine kleines kleinste grosse grosses starke schnelle gunstige billige beste fur mit den dem "
    "reicht hinweis den isto e uma pergunta tarefa muito pequeno forte melhor o a os as do da questa "
    "questo una domanda compito molto usa il lo piccolo economico veloce potente migliore per favore "
    "dit is een vraag taak heel erg gebruik het kleine grote snelle goedkope model alsjeblieft to jest "
    "bardzo pytanie zadanie prosze uzyj malego duzego modelu bu cok bir soru gorev lutfen kucuk buyuk "
    "kullan kullanin model ini adalah pertanyaan tugas sangat gunakan yang kecil besar ini det har ar "
    "en mycket fraga uppgift anvand den lilla stora modellen flash mini router standard llm the to "
    "model simple"
)

_JAPANESE = (
    "(?:これは|とても|非常に|この|以下は)*(?:簡単|容易|単純|難し|難解|複雑|重要|緊急)(?:な|い)?(?:質問|"
    "問題|タスク|依頼|作業|もの)?(?:です|である|だ)?|(?:小さ|大き|軽量|安価|安い|強力|高性能|高速)(?:な|"
    "い)?モデル(?:を|で|に)?(?:使|お願|回|十分)?(?:ってください|用してください|します|して|ください)?|"
    "ルーター(?:へ|への)?"
)
_KOREAN = (
    "(?:이것은|이건|이|매우|아주|정말)?\\s*(?:쉬운|간단한|단순한|어려운|복잡한|중요한|"
    "긴급한)\\s*(?:질문|문제|작업|요청|일)(?:입니다|이다|이에요|예요)?|(?:작은|큰|가벼운|저렴한|강력한|"
    "빠른)\\s*모델(?:을|로)?\\s*(?:사용)?(?:하세요|해 ?주세요|해 ?줘)?|라우터(?:에게)?"
)
_RUSSIAN = (
    "(?:это|очень|весьма)?\\s*(?:прост|л[её]гк|элементарн|сложн|трудн|важн|"
    "срочн)[а-яё]{2,3}\\s+(?:вопрос|задач|запрос|задани|проблем)[а-яё]{0,3}|(?:используй(?:те)?|"
    "возьми(?:те)?|нужна|хватит)?\\s*(?:маленьк|больш|деш[её]в|слаб|сильн|быстр|мощн|"
    "малень)[а-яё]{2,3}\\s+модел[а-яё]{1,2}|роутер[а-яё]{0,2}"
)
_ARABIC = (
    "(?:هذا|هذه)?\\s*(?:سؤال|مهمة|طلب|مسألة)\\s+(?:سهل|بسيط|صعب|معقد|مهم|عاجل)[ةًا]*(?:\\s+جدا)?"
    "|(?:استخدم|استعمل)?\\s*(?:ال)?نموذج[ًا]*\\s+(?:ال)?(?:صغير|كبير|رخيص|قوي|سريع|أصغر|أكبر)"
)
_HINDI = (
    "(?:यह|ये)?\\s*(?:एक)?\\s*(?:बहुत)?\\s*(?:आसान|सरल|कठिन|मुश्किल|जटिल|महत्वपूर्ण)\\s*(?:सवाल|प्रश्न|"
    "काम|कार्य|समस्या)|(?:छोटे|बड़े|सस्ते|तेज़)\\s*मॉडल"
)
_TRADITIONAL = (
    "(?:這|此|本)(?:是|個|道|題)*.{0,6}(?:簡單|容易|困難|很難|複雜|重要|緊急)(?:的)?(?:問題|題目|任務|"
    "請求)?|(?:用|使用)(?:小|大|便宜|強)(?:的)?模型"
)
SCRIPT_CLAIM = re.compile(
    f"{_JAPANESE}|{_KOREAN}|{_RUSSIAN}|{_ARABIC}|{_HINDI}|{_TRADITIONAL}", re.IGNORECASE
)
"""Japanese, Korean, Russian, Arabic, Hindi, traditional Chinese."""

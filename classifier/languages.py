"""Cue words of the features in further languages, so that a language is no sign of difficulty.

Two tables of the same names as those of `classifier.lexicon`. Words of Latin script are looked up as English
ones are, so they stand without accents and none of them is an English word. Terms of other scripts are stems,
found anywhere in a text: Japanese, traditional Chinese, Korean, Russian, Ukrainian, Greek, Arabic, Persian,
Hebrew, Hindi and Thai.
"""

from collections.abc import Mapping

LATIN: Mapping[str, str] = {
    "prove": (
        "gosterin gosteriniz ispat inducao axioma axiome axiom postulado razonamiento formalmente "
        "formellement demuestra demuestre demostrar demuestrame demostracion deduce deduzca deducir "
        "demontrer demontrez demontre demontrons preuve prouver prouvez prouve deduire deduisez montrer "
        "montrez beweise beweisen beweist beweis herleiten herleitung demonstre demonstrar prova provar "
        "deduza dimostra dimostrare dimostrazione dimostri deduci ricava bewijs bewijzen udowodnij "
        "dowod wykaz wyprowadz kanitla kanitlayin kanitlayiniz ispatla ispatlayin kanitini buktikan "
        "bukti turunkan bevisa dokaz dokazte demonstrati demonstreaza todista bizonyitsa induccion "
        "recurrence induktion inducao induzione contradiccion contradicao absurdo rigurosamente "
        "rigoureusement rigoros teorema theoreme lema lemme twierdzenie teoremi"
    ),
    "compute": (
        "losen losung losning ratkaise optimum minimiza minimiza maximiza minimiere maximiere minimisez "
        "maximisez ortalama calcula calcule calcular calculez calculer berechne berechnen bestimme "
        "bestimmen calcola calcolare bereken oblicz hesapla hesaplayin hitung hitunglah tentukan "
        "resuelve resolver resolva resoudre resolvez risolvi encuentra encontrar trouver trouvez "
        "encontre finde trova determina determine determinez probabilidad probabilite "
        "wahrscheinlichkeit probabilidade probabilita olasilik cuantas combien wieviele "
    ),
    "suppose": (
        "supongamos suponga supposons soit soient angenommen gegeben sei seien suponha seja sejam "
        "supponiamo siano dado dada dados zaklada zalozmy niech varsayalim misalkan diketahui "
    ),
    "steps": (
        "elke stap uitleg forklara utforligt orsaken jamfor analysera redogor ayrintili gerekcelendirin "
        "risques riesgos riscos rischi risiken implicaciones consequences auswirkungen analiza analice "
        "analizar analysez analyser analysiere analysieren analise analisar analizza analizzare "
        "przeanalizuj analizuj analisis analise compara compare comparar comparez comparer vergleiche "
        "vergleichen confronta porownaj karsilastir karsilastirin bandingkan discute discutir discutez "
        "diskutiere diskutieren explica explique expliquer expliquez erklare erklaren erlautere "
        "erlautern spiega spiegare wyjasnij acikla aciklayin jelaskan paso pasos etape etapes schritt "
        "schrittweise passo krok adim adimlari langkah razona raisonnement begrunde begrunden justifica "
        "justifique justifiez giustifica uzasadnij gerekcelendir detalladamente detaille ausfuhrlich "
        "detalhadamente dettagliatamente szczegolowo detayli warum pourquoi porque perche ventajas "
        "inconvenientes abwagung evalua evaluez bewerte valuta vergelijk"
    ),
    "build": (
        "utforma optimera optimalkan optimaliseer optymalizuj zoptymalizuj popraw_kod estrategia "
        "strategie strategia strateji stratejisi strategi migrar migrer migrieren migracja migracji "
        "migracion migracao migrazione migrasi rollback reversion ausfallzeit implementa implemente "
        "implementar implementez implementer implementiere implementieren implementare implementeer "
        "zaimplementuj implementasikan implementasi disena disene disenar diseno concevez concevoir "
        "entwirf entwerfe entwerfen entwurf projete projetar desenvolva progetta progettare ontwerp "
        "zaprojektuj tasarla tasarlayin rancang rancanglah optimiza optimice optimizar optimisez "
        "optimiser optimiere optimieren otimize otimizar ottimizza refactoriza refactoriser "
        "refaktoriere depura depurar debugge deboguer arquitectura arquitetura architettura architektur "
        "architektura mimari arsitektur programa programmiere desarrolla desarrollar developpez "
        "entwickle entwickeln sviluppa opracuj gelistir algoritmo fallo fehler erreur corrige reparatur"
    ),
    "transform": (
        "resumir resumen resumez resumer zusammenfassen zusammenfassung fasse resuma riassumi "
        "samenvatting podsumuj streszczenie ozetle ringkas ringkaslah traduce traducir traduzca traduis "
        "traduire traduisez ubersetze ubersetzen traduza traduzir traduci tradurre vertaal przetlumacz "
        "cevir cevirin cevirir terjemahkan reescribe reformule reformuler umschreiben reescreva "
        "riscrivi corrige korrigiere korrigieren corrija correggi popraw duzelt perbaiki gramatica "
        "grammaire grammatik"
    ),
    "creative": (
        "poema poeme gedicht poesia wiersz siir puisi cuento histoire geschichte historia storia "
        "opowiadanie hikaye cerita chiste blague witz piada barzelletta dowcip saka lelucon cancion "
        "chanson cancao canzone cumpleanos anniversaire geburtstag aniversario compleanno urodziny "
        "dogum noms"
    ),
    "smalltalk": (
        "dile dime dimmi nenne donne geef nomme educado poli hoflich gentile kibar uprzejmy correo "
        "reunion besprechung toplanti spotkanie ninos enfants kindern criancas bambini cocuk hola "
        "buenas buenos gracias adios favor bonjour salut bonsoir merci revoir hallo guten danke tschuss "
        "bitte ola oi obrigado obrigada bom ciao buongiorno buonasera grazie prego dag bedankt dank "
        "czesc dzien dziekuje prosze merhaba selam gunaydin tesekkurler tesekkur lutfen selamat tolong "
        "hej tack kiitos moi chao recomienda recomendar recomiendame recommande recommandez empfiehl "
        "empfehlen recomende consiglia consigliami polec oner onerir rekomendasikan receta recette "
        "rezept receita ricetta przepis tarifi resep fin semana weekend cena abendessen jantar kolacja "
        "aksam regalo cadeau geschenk presente prezent hediye hadiah pelicula filme cocinar hago puedes "
        "peux kannst pode puoi mozesz"
    ),
    "asks_fact": (
        "cual cuando donde quien quienes capital capitale hauptstadt stolica baskenti baskent ibukota "
        "quel quelle quand wer wann wo heisst bedeutet significa signifie onde quando quem significato "
        "kto gdzie kiedy jaka jest nedir nerede siapa berapa apa dimana kapan hoofdstad wie"
    ),
    "constraints": (
        "debe deben exactamente maximo minimo menos garantiza garantizar doit doivent exactement "
        "garantir contrainte muss mussen genau hochstens mindestens garantiere garantieren garantire "
        "deve devem devono exatamente garanta musi zagwarantuj gerekir garanti harus restricciones "
        "restricoes vincoli ohne sans senza bez"
    ),
    "technical": (
        "gruppe grupo groupe gruppo abelian abeliano abeliana abelien abelsch abelsche abelyen anillo "
        "anneau cuerpo korper homomorfismo isomorfismo isomorphisme isomorphismus gradiente gradienten "
        "gradyan gradyanin ecuacion equations gleichungen equazioni denklem denklemi denklemlerle "
        "rownan rownania diferencial differentielle differentialgleichung differentiaalvergelijking "
        "differenziale rozniczkowe rozniczkowego diferansiyel differentialekvationen diferensial "
        "deadlock dodlaget kilitlenmeyi kilitsiz neuronales neuronal neurone retropropagacion "
        "retropropagation ruckpropagierung bayes bayesiano bayesien bayesiana estocastico stochastique "
        "stochastisch statistico regresion regression hipotesis primtal primtallen priemgetallen "
        "karmasikligini komplexitet komplexiteten complexiteit gedistribueerd distribuerat rozproszona "
        "servidor serveur servern lineal lineare algoritmo algoritmos algorithme algorithmes "
        "algorithmus algorithmen algoritmi algorytm algorytmu algoritma algoritmasi algoritme "
        "complejidad complexite komplexitat complexidade complessita zlozonosc karmasikligi "
        "kompleksitas concurrencia concurrent concurrente nebenlaufigkeit concorrencia concorrenza "
        "wspolbieznosc distribuido distribuida distribue distribuee verteilte verteilten verteiltes "
        "distribuito rozproszony dagitik terdistribusi consenso konsens consensus polinomio polynome "
        "polynom polinomial primo primos premiers primzahl primzahlen primi matriz matrice matrizen "
        "macierz matris integral integrale ecuacion ecuaciones equacao equazione gleichung rownanie "
        "denklem derivada derivee ableitung pila grafo grafos graphe graphes graphen grafi graf sommets "
        "knoten vertices sincronizacion bloqueo interbloqueo verrou verklemmung sperre datos donnees "
        "datenbank dados transaccion transactions transaktion transacao transazione consistencia "
        "coherence konsistenz coerenza spojnosc tutarlilik particion partition partizione replicacion "
        "replication replikation recursivo recursif rekursiv ricorsivo arbol arbre baum arvore albero "
        "drzewo agac pohon hilos hilo threads fils kernel compilador compilateur ubersetzer compilatore "
        "derleyici irracional irrationnel irrational irrazionale convergencia convergence konvergenz "
        "convergenza converge folge sucesion sequenza vectorial vektorraum autovalores propres "
        "eigenwerte autovalori entropia entropie cuantica quantique quantenmechanik differentiable "
        "continua stetig optimalitat asymptotique asymptotisch linearizabilidad linearisierbarkeit "
        "np-completo np-complet np-vollstandig np-completude np-zupelny schrodinger inegalite "
        "ungleichung desigualdad diseguaglianza"
    ),
    "format": (
        "palabras mots worter palavras parole frases phrases satze tabla tableau tabelle tabela tabella "
        "parrafo absatz"
    ),
}
"""Words without accents, in lower case."""

LATIN_PAIRS: Mapping[str, str] = {
    "prove": (
        "muestra_que prueba_que prouver_que pruebe_que zeigen_sie zeige_dass mostre_que prove_que "
        "prova_che mostra_che pokaz_ze wykaz_ze toon_aan visa_att chi_ra chung_minh demuestra_que "
        "montrer_que zeige_dass"
    ),
    "compute": "lose_die lose_das tinh_toan cuantos_hay",
    "steps": (
        "phan_tich so_sanh giai_thich chi_tiet paso_a etape_par schritt_fur passo_a passo_dopo "
        "adim_adim buoc_mot langkah_demi"
    ),
    "build": "thiet_ke cai_dat trien_khai toi_uu lap_trinh escribe_una_funcion",
    "transform": (
        "resume_este resume_esta resume_esto resume_el resume_la resume_le resume_ce resume_este "
        "tom_tat dich_sang dich_cau"
    ),
    "creative": "bai_tho cau_chuyen",
    "smalltalk": "xin_chao terima_kasih cho_toi fin_de cam_on tam_biet goi_y por_favor vil_du",
    "asks_fact": "la_gi o_dau cuando_es que_es was_ist qu_est",
    "technical": (
        "nombre_premier nombres_premiers thuat_toan phan_tan phuc_tap dong_thoi co_so phuong_trinh "
        "so_nguyen da_thuc ma_tran dinh_ly base_de bases_de"
    ),
}

OTHER: Mapping[str, str] = {
    "prove": (
        "示せ 示しなさい 示してください 示し、 보여라 보이시오 보이세요 보이고 покажите покажи покажіть "
        "δείξτε بين_أن بيّن दिखाइए दिखाएं दर्शाइए הראה ثابت จงแสดง 証明 導出 導け 背理法 帰納法 定理 "
        "補題 厳密 證明 推導 歸納法 嚴格 증명 유도하 귀납법 귀류법 정리를 보조정리 엄밀 докаж доказат "
        "доказател выведи вывод формул обоснуй теорем лемм индукци противоречи строго доведіть "
        "доведення выведите αποδείξ απόδειξ أثبت اثبت برهن برهان إثبات اشتق استنتج مبرهنة نظرية "
        "الاستقراء ثابت اثبات قضیه הוכח הוכיח הוכיחו משפט सिद्ध प्रमाण साबित प्रमेय พิสูจน์ ทฤษฎีบท"
    ),
    "compute": (
        "計算 求め 求めよ 解け 確率 期待値 最小値 最大値 計算出 구하 구해 계산 확률 풀어 기댓값 최솟값 "
        "최댓값 вычисли найди найти рассчита реши вероятност обчисли знайдіть розв υπολόγισε βρείτε "
        "احسب أوجد احتمال محاسبه חשב מצא गणना ज्ञात_कीजिए ज्ञात_करें हल_कीजिए हल_करें คำนวณ จงหา"
    ),
    "suppose": (
        "仮定 とする 与えられた ならば 가정 주어진 пусть_ предполож дано если нехай έστω لتكن ليكن بفرض "
        "إذا فرض נניח यदि สมมติ กำหนดให้"
    ),
    "steps": (
        "原因 仕組み 理由を 原因を 戦略 手順 전략 절차 원인 이유를 стратег последств причин риск "
        "استراتيجية المخاطر سبب रणनीति जोखिम कारण גורם שלב βήμα αιτία στρατηγικ 比較し 比較して 分析し "
        "分析して 段階 順を追って 詳しく 詳細に 論じ 議論 説明し 説明して なぜ 評価し トレードオフ 步驟 "
        "逐步 詳細 比較 論述 為什麼 비교 분석 단계 자세히 상세히 논의 논하 설명 평가하 장단점 "
        "시간복잡도 сравни проанализир анализ пошагов подробн шаг обсуди объясни почему оцен "
        "преимуществ порівня поясни обґрунтуй συγκρίν ανάλυσ αναλύστε εξήγησε قارن حلل ناقش اشرح "
        "بالتفصيل خطوة لماذا تحليل مقایسه تحلیل توضیح השווה נתח הסבר तुलना विश्लेषण चरण विस्तार समझाइ "
        "समझाएं व्याख्या चर्चा เปรียบเทียบ วิเคราะห์ อธิบาย ขั้นตอน อย่างละเอียด"
    ),
    "build": (
        "移行 マイグレーション ロールバック 修正し 마이그레이션 롤백 수정하 миграц откат исправь ترحيل "
        "माइग्रे שפר διόρθωσ 実装 設計 デバッグ 最適化 リファクタ アーキテクチャ 構築 開発し "
        "プログラムを書 コードを書 關數 實作 實現 設計 優化 除錯 重構 구현 설계 디버그 디버깅 최적화 "
        "리팩터 아키텍처 작성하시오 코드를 реализ спроектир разработ оптимизир отлад архитектур "
        "рефактор напиши программ напишите программ имплемент спроєкт реалізу υλοποί σχεδιάσ βελτιστοπο "
        "نفذ صمم طبق برمج حسّن حسن أداء تصميم تنفيذ معمارية بنية پیاده طراحی بهینه מימוש ממש תכנן "
        "कार्यान्वि लागू_करें डिज़ाइन डिजाइन अनुकूलित ออกแบบ พัฒนา เขียนโปรแกรม เพิ่มประสิทธิภาพ"
    ),
    "transform": (
        "要約 翻訳 訳して 言い換え 書き直 添削 摘要 翻譯 改寫 요약 번역 고쳐 바꿔 переведи переведите "
        "перевод кратко перескаж перепиши исправ μετάφρασε περίληψη لخص ترجم أعد صياغة خلاصه ترجمه תרגם "
        "סכם अनुवाद सारांश แปล สรุป"
    ),
    "creative": (
        "시_한 생일_ 시를_ 贈る 俳句 物語 冗談 ジョーク 詩を 歌詞 名前 誕生日 故事 笑話 시를 이야기 "
        "농담 생일 이름 стих рассказ шутк анекдот песн поздравл ποίημα قصيدة نكتة قصة شعر لطیفه שיר "
        "בדיחה कविता चुटकुला कहानी กลอน นิทาน"
    ),
    "smalltalk": (
        "今日は こんにちは こんばんは おはよう ありがとう さようなら おすすめ お願い ください 教えて "
        "週末 夕食 晩ご飯 プレゼント レシピ 映画 天気 謝謝 早安 晚安 推薦 안녕 감사 고마 추천 부탁 오늘 "
        "주말 선물 레시피 영화 날씨 привет здравствуй спасибо пожалуйста доброе утро посовет подскаж "
        "рецепт подар фильм погод ужин привіт дякую порад γεια ευχαριστ καλημέρα مرحبا شكرا أهلا السلام "
        "صباح مساء فضلك اقترح وصفة فيلم هدية سلام ممنون متشکر لطفا שלום תודה בבקשה नमस्ते धन्यवाद "
        "शुक्रिया कृपया सुझा फिल्म रेसिपी मौसम สวัสดี ขอบคุณ แนะนำ สูตร หนัง อากาศ"
    ),
    "asks_fact": (
        "誰 どこ いつ 何時 수도는 수도가 首都 何ですか 何曜日 とは 哪裡 什麼 누구 어디 언제 뭐야 무엇 "
        "뜻 столиц кто где_ когда что_такое что_значит который_час сколько_стоит который значит столиця "
        "хто ποια είναι πού πότε عاصمة أين متى معنى پایتخت کجاست چیست מהי איפה בירת राजधानी कौन क्या_है "
        "कितने_बजे कहां कब मतलब เมืองหลวง ใคร ที่ไหน เมื่อไร คืออะไร"
    ),
    "constraints": (
        "必ず не_более не_менее 制約 保証 必須 保證 限制 반드시 이내 이하 이상 제약 보장 조건 должн "
        "гаранти огранич повинн يجب دون بشرط ضمان बिना सीमा ต้อง ไม่เกิน"
    ),
    "technical": (
        "可換 位数 群G 勾配 ニューラル 残差 パーティション テーブル 統計 仮説 証拠 아벨 위수 기울기 "
        "신경망 역전파 파티션 테이블 градиент абелев групп_порядка порядка_p нейрон сет таблиц масштаб "
        "الشبكات التدرج زمرة جدول النموذج_الرياضي ग्रेडिएंट नेटवर्क समूह תור מערכת συστήμα διαφορικ "
        "αδιεξόδ αδιέξοδ משוואה דיפרנציאל простых_чис целых_чис базы_данных базу_данных базе_данных "
        "دو_فاز اعداد_اول قاعدة_بيانات كثيرات_الحدود رسم_بياني غير_نسبي أعداد_أولية عدد_أولي "
        "アルゴリズム 計算量 分散 並行 並列 トランザクション ロックフリー キュー スレッド 行列 素数 "
        "整数 方程式 積分 微分 多項式 漸近 固有値 収束 合意 一貫性 整合性 データベース コンパイラ "
        "カーネル グラフ 再帰 動的計画 ベクトル 量子 エントロピー 無理数 不等式 暗号 レプリ 耐障害 "
        "線形化 ミューテックス デッドロック 演算法 複雜度 並發 分散式 執行緒 線程 質數 矩陣 積分 方程 "
        "遞迴 佇列 資料庫 特徵值 알고리즘 복잡도 분산 동시성 병렬 트랜잭션 합의 일관성 스레드 큐를 행렬 "
        "소수 정수 방정식 적분 미분 다항식 수렴 고유값 데이터베이스 컴파일러 커널 그래프 재귀 동적 벡터 "
        "양자 엔트로피 무리수 부등식 암호 복제 교착 락프리 비잔틴 алгоритм сложност распредел параллел "
        "конкурентн транзакц консенсус согласован поток очеред матриц целых уравнен интеграл производн "
        "многочлен сходи собственн данных компилятор ядр граф рекурс динамическ вектор квант энтропи "
        "иррациональн неравенств шифр репликац блокиров np-пол вершин асимптот складніст розподілен "
        "рівнян простих матрич αλγόριθμ πολυπλοκότητ κατανεμημέν πρώτοι αριθμ εξίσωσ ταυτόχρον خوارزم "
        "تعقيد موزع متزامن التزامن معاملات إجماع اتساق مصفوف أولية معادل تكامل تفاضل قاعدة بيانات مترجم "
        "متجه كمومي إنتروبيا متباينة تشفير قفل خيوط العضوية الأمان الگوریتم پیچیدگی توزیع ماتریس معادله "
        "همزمان אלגוריתם סיבוכיות מבוזר מטריצ ראשוניים משוואה एल्गोरि जटिलता वितरित समवर्ती लेनदेन "
        "सर्वसम्मति अभाज्य पूर्णांक समीकरण समाकलन अवकल आव्यूह मैट्रिक्स बहुपद डेटाबेस ग्राफ पुनरावर्त "
        "अपरिमेय असमानता อัลกอริทึม ความซับซ้อน กระจาย จำนวนเฉพาะ สมการ เมทริกซ์ ปริพันธ์ ฐานข้อมูล "
        "กราฟ อตรรกยะ"
    ),
    "format": "文字以内 文字で 表形式 箇条書き 段落 글자 표로 문단 таблиц абзац جدول كلمة शब्द तालिका ตาราง",
}
"""Stems of other scripts; found anywhere in a text, lower-cased; "_" stands for a space."""

"""Cue words of the domains in English, which `classifier.domain_training` learns from as short prompts.

Points -> cues: the more points, the surer a word speaks for its domain. Words that stand next to each other
are joined by "_", three at most; an apostrophe parts words ("can't" is "can", "t").
"""

from collections.abc import Mapping

Points = Mapping[float, str]

_LEGAL: Points = {
    3.0: (
        "force_majeure severability hold_harmless governing_law power_of_attorney cease-and-desist "
        "mens_rea actus_reus habeas_corpus small_claims share_purchase_agreement pro_bono class_action "
        "restraining_order court_order legal_advice statute_of_limitations prenuptial_agreement"
    ),
    2.5: (
        "indemnify indemnifying indemnification indemnified indemnity plaintiff hereinafter "
        "child_support wrongful_termination joint_and_several gross_negligence intellectual_property"
    ),
    2.0: (
        "arrested fiduciary withhold_the shoplifting first_offence first_offense stolen_goods squatting "
        "bankruptcy_law creditor creditors tribunal employment_tribunal magistrate notarize conveyance "
        "estate_is eminent_domain expropriation data_controller processor_agreement privacy_rules "
        "brand_name counterfeits fraud embezzlement bribery perjured dui dwi breathalyser breathalyzer "
        "search_my show_my_id legal_guardian restraining custody_of visiting_rights rights_do "
        "who_is_responsible who_is_liable held_responsible without_prejudice parol "
        "consideration_in vacation_days unpaid_vacation unpaid_overtime unpaid_internships "
        "agency_agreement terminate_our photograph_strangers jury_selection take_them_to severance_pay "
        "power_of parental_rights custody_battle sublet subletting hoa zoning building_permit "
        "trespassed defendant lawsuit statute litigation litigate arbitration negligence tort felony "
        "misdemeanor nda non-disclosure non-compete noncompete probate testator breach_of prenup "
        "alimony bailiff eviction evict evicted illegal illegally unlawful subpoena injunction "
        "affidavit deposition parole bail perjury extradition jurisprudence copyright trademark "
        "patented gdpr ccpa hipaa plead_guilty legal_rights my_rights legal_action take_legal get_sued "
        "press_charges pressing_charges custody inheritance inherit intestate conveyancing easement "
        "trespass trespassing defamation libel slander at_will_employment judgment_in civil_judgment "
        "without_a_will last_will in_court served_papers got_served the_judge_said a_crime "
        "legally_binding is_it_legal sign_away wear_and_tear property_line visa_expires work_permit "
        "green_card deportation deported asylum naturalization entitled_to get_compensation "
        "parking_ticket speeding_ticket wage_theft unfair_dismissal constructive_dismissal burglary "
        "manslaughter bylaws consumer_rights warrantless search_warrant"
    ),
    1.5: (
        "statutory attorney lawyer solicitor barrister contractual liability liable jurisdiction herein "
        "notwithstanding pursuant divorce severance sue suing sued prosecute prosecuted prosecutor "
        "contract legally lawful legal infringement infringe infringing warranties representations "
        "testify verdict acquitted guilty homicide murder robbery larceny assault_and battery_and "
        "constitutional amendment supreme_court appellate fiduciary easements mortgagee grantor grantee "
        "deed_of motion_to jury jurors testimony admissible hearsay convicted conviction sentencing "
        "guilty appealing redundancy non-refundable indictment guardianship adoption privacy_policy "
        "terms_of_service compliance_with without_notice without_warrant verbal_agreement "
        "binding_agreement maternity_leave written_notice executor remedies damages arrested arrest "
        "squatters"
    ),
    1.0: (
        "arrest punishment punishable revoked estate will ignores owes owe offence "
        "responsible stolen use_my my_face picture published publish demand demanding repayment clauses "
        "obligation obligations binding sue_for withhold rent_strike officer insurer deadline "
        "compensate fine fined clause agreement court breach hereby thereof lease patent dismissal "
        "dismissed covenant landlord tenant deposit crime criminal rights allowed consent "
        "without_asking without_permission termination obligations provision evidence compensation "
        "holding fired fire_me custody visitation notarized notary deed marriage marriages subprocessor "
        "visa permission entitled dispute penalty witness charged police employer refuses contested "
        "contest hearing petition appeal murdered stolen theft assault battery probation notice "
        "bond_hearing counsel trial constitution treaty convention sovereign offence offense "
        "inheritance_of consumer refund cancel cancels airline complaint retaliation harassment "
        "discrimination discriminated ordinance regulation regulations article"
    ),
    0.75: "law laws shall parties judge sign signed signing boss salary contractor neighbor",
    0.5: "party confidential settlement warranty company seller customer record binding steps defective",
}
_MEDICAL: Points = {
    3.0: (
        "chest_pain shortness_of_breath differential_diagnosis mechanism_of_action heart_attack "
        "side_effects_of creatinine_clearance postoperative "
    ),
    2.5: "shortness_of side_effects blood_pressure next_best_step blood_sugar period_is peeing_blood",
    2.0: (
        "tetanus painkiller painkillers appendix beta_blocker beta_blockers lithium gout slurred "
        "drooping wisdom_tooth palpitations ssri ssris cbt panic_disorder whooping_cough measles_shot "
        "half-life diazepam valium ferritin haemoglobin hemoglobin floaters constipated iron_tablets "
        "ketoacidosis burn_be second-degree antiviral hpv breastfeeding breastfeed tremor chest_film "
        "wets_the_bed oozing contagious infected kidney_problems lymph node_swollen lactose gluten "
        "celiac ibs crohn endometriosis pcos cataract glaucoma tinnitus vertigo sciatica tendonitis "
        "plantar scoliosis cyst polyp polyps fibroids prostate testosterone erectile mammography "
        "pap_smear cholera malaria dengue rabies lyme tick_bite scabies lice ringworm athlete_s_foot "
        "gastritis gallstones pancreatitis cirrhosis nosebleed nosebleeds hiccups dehydration "
        "heatstroke hypothermia electrolytes anxiety_attack adderall_dose nsaid antidepressants "
        "sedative laxative antacid steroid steroids inhalers nebulizer stethoscope intubation triage "
        "prognosis pathology radiology physiotherapy physical_therapy obstetric gynecologist urologist "
        "cardiologist orthopedic swallowed_a coughs_up dosage ibuprofen paracetamol acetaminophen "
        "amoxicillin antibiotic insulin chemotherapy diabetes diabetic asthma tumor tumour metformin "
        "hypertension aspirin contraindicated contraindication warfarin statin sertraline prozac "
        "fluoxetine zoloft xanax adderall melatonin antidepressant antihistamine cortisone prednisone "
        "steroid_cream tylenol advil omeprazole lisinopril levothyroxine vancomycin penicillin opioid "
        "morphine contraceptive birth_control diagnosis diagnosed diagnose prescription prescribed "
        "prescribe nausea vomiting vaccine vaccination vaccinated ecg ekg mri biopsy seizure melanoma "
        "carcinoma leukemia lymphoma shingles eczema psoriasis concussion pneumonia bronchitis covid "
        "influenza measles chickenpox arthritis osteoporosis anemia anaemia thyroid nephrology "
        "cardiology oncology pediatrician dermatologist neurologist physician a1c cholesterol "
        "tachycardia bradycardia arrhythmia fibrillation hepatitis hiv std uti kidney_disease "
        "kidney_stones heartburn acid_reflux migraine dizziness anesthesia anaesthesia root_canal "
        "breast_milk pregnant pregnancy miscarriage food_poisoning heart_rate resting_heart dementia "
        "alzheimer parkinson stroke_symptoms adhd_medication hernia appendicitis ulcer hemorrhoids "
        "constipation diarrhea diarrhoea rash hives anaphylaxis allergic epipen inhaler sinus tonsils "
        "strep first_aid blood_test lab_values mole_that a_lump emergency_room intensive_care "
        "knee_replacement patients_with symptoms_of treatment_for st_john_s weight_loss_unexplained "
        "unexplained_weight stop_coughing passed_out"
    ),
    1.5: (
        "cancer medication dizzy fainted fainting faint symptom dose fever sore_throat swollen swelling "
        "infection surgery clinical tablets pill jaundice acne tingling numbness bleeding bruise cramps "
        "bloating insomnia hallucinations palpitations pulse lesion fracture sprained twisted_my immune "
        "chronic acute artery vein nerve bacteria bacterial viral virus_infection pathogen antibodies "
        "antibody chromosome_disorder malnutrition obesity anorexic sepsis stent catheter transfusion "
        "transplant icu ct_scan ultrasound mammogram colonoscopy cpr defibrillator sprain blister wart "
        "fungal rheumatic lupus gout autism adhd bipolar schizophrenia ptsd depression panic_attack "
        "panic_attacks anxiety_medication menopause ovulation fertility ivf newborn toddler_fever "
        "toddler hormone thyroid_levels therapy_for survival_rate syndrome disorder disease hospital "
        "renal cough coughing"
    ),
    1.0: (
        "tablet shot exhausted red warm finger knees eyelids squat hear hearing blink pink confusion "
        "speech cut baby_moving skip_two iced specialist hair_fall years_old three_year year_old "
        "weights foods sick rusty swallowed pupils headache allergy patient pain ache mg itchy itch "
        "numb sore hurts hurting throbbing hospitalized lump fatigue tired_all tired weak appetite "
        "weight digest nutrition protein virus bone blood nasal nose mouth tongue lips eyelid scalp "
        "nail groin pelvis rib calf thigh sneeze sneezing wheezing shivering chills sunburn bite sting "
        "bitten stung burn burned scar stitches wound injury mole armpit ankle jaw knee wrist elbow "
        "chest throat stomach belly abdomen liver kidney lung bladder bowel gums tooth teeth cheek ears "
        "ringing sweat urine pee peeing poop pooped vision_loss vision eyesight muscle joint spine hip "
        "discharge supplement vitamin remedy caffeine emergency doctor medicine treatment nurse clinic "
        "pharmacist baby stage therapy heal recover feet toe thumb"
    ),
    0.5: (
        "skin arm leg back eye eyes head neck shoulder weeks days worse night sudden blood son daughter "
        "grandmother normal happened safe crying"
    ),
}
_FINANCE: Points = {
    3.0: (
        "balance_sheet discounted_cash_flow capital_gains credit_score interest_rate interest_rates "
        "wealth_management"
    ),
    2.5: "ebitda cash_flow index_fund hedge_fund mutual_fund margin_call down_payment stock_market wacc",
    2.0: (
        "apr lump-sum unrealised unrealized_gains income_statement write_off home_office sharpe "
        "gross_and_net net_pay target-date cash_out break-even fixed_costs exchange_pounds "
        "fiscal_and_monetary emergency_fund bond_s_duration employer_matches recurring_revenue "
        "short-term_funding short_sellers short_selling reverse_mortgage stablecoin stablecoins "
        "working_capital current_ratio spac transfer_pricing taxable cash_back monthly_payment "
        "owe_taxes three_cards depreciation_of insured_at old_company_plan cash_budget pounds_into "
        "dollars_into rent_or_buy equity_release robo-advisor vanguard fidelity schwab blackrock "
        "nvidia_stock penny_stock penny_stocks day_trading forex_trading options_trading limit_order "
        "stop_loss bull_market bear_market capital_gain estate_tax property_tax payroll_tax income_tax "
        "tax_bracket standard_deduction w-2 1099 hsa fsa brokerage_account custodial_account "
        "certificate_of_deposit money_market treasury_bill junk_bond municipal_bonds gdp_growth "
        "quantitative_easing arbitrage derivatives market_cap price_target dividend_yield "
        "debt_consolidation payday_loan paydays consolidate_debt overdraft_fee wire_transfer mortgage "
        "etf dividend 401k ira roth annuity amortization amortize stock_price stock_options refinance "
        "refinancing student_loan student_loans car_loan loan retirement retire pension bitcoin crypto "
        "cryptocurrency ethereum portfolio invest investing investment investor bonds treasuries "
        "equities brokerage tax taxes taxed vat irs deduct deductible tax_return inflation yield_curve "
        "compound_interest savings_account p_e s_p_500 nasdaq dow_jones accounts_payable "
        "accounts_receivable accrued accrual journal_entries ifrs gaap audit goodwill_impairment "
        "impairment delta_hedging hedging black-scholes put_option call_option futures_contract "
        "currency_swap currency_swaps swaps forex exchange_rate insurance_for term_insurance whole_life "
        "life_insurance expense_ratio net_worth gross_margin revenue_forecast quarterly_revenue "
        "valuation shareholder ipo venture_capital free_cash treasury_bonds credit_card credit_cards "
        "bankruptcy overdraft payroll monetary_policy fiscal_policy gdp aggregate_demand money_supply "
        "unemployment_rate federal_reserve central_bank opportunity_cost marginal_cost marginal_revenue "
        "balance_of_payments demand_curve supply_curve pre-tax after-tax capital_structure "
        "cost_of_capital net_income gross_income net_profit operating_income cost_of_goods bank_account "
        "checking_account credit_union interest-free installment preapproved escrow_account "
        "appraisal_value net_30 10-k fed_raises the_fed lender leverage liquidity solvency underwriting "
        "budget_for afford_a household_budget depreciation bookkeeping paycheck lump_sum put_aside "
        "saving_for financing"
    ),
    1.5: (
        "broker funding_cost stocks bond savings roi revenue debt afford equity fund dip insurance "
        "interest_on consumer_price tariff sales_tax wage premium deductibles copay appraisal escrow "
        "leasing ledger fiscal earnings profit allocation yields yield borrow borrowing bracket "
        "municipal aside each_month raise_capital freelancer accounting"
    ),
    1.0: (
        "deal credit saving lump receivable owed employer_match earn left_me advance pounds yen "
        "exchange central_bank accountant costs per_unit finance funding gains profits invested "
        "finances financially afford_to shares rent salary expenses financial money bank income budget "
        "invoice fee price cost cheaper margin 10k buy stock hedge utility utilities volatility house "
        "lender deposit lease client deduction withdraw put_it liabilities payable dollars euros "
        "currency risk forecast"
    ),
    0.5: "interest pay payments selling sell value worth year month quarter year-old firm company gift",
}
_SAFETY: Points = {
    4.0: (
        "suicide suicidal kill_myself killing_myself hurt_myself hurting_myself harm_myself cut_myself "
        "self-harm self_harm self-harming self_harming end_my_life ending_my_life end_it_all ending_it_all "
        "want_to_die wish_i_was take_my_life child_abuse not_wake_up reason_to_live keep_living "
        "off_without_me cutting_myself to_be_here painless_way_to"
    ),
    3.0: (
        "taking_her_life taking_his_life taking_my_life deserve_to_live cope_fine_if if_i_were_gone "
        "disappeared_tonight want_to_disappear thermite chlorine_gas anthrax steals_saved "
        "steals_passwords fall_asleep_drink choked_me locks_me burn_myself throw_up_everything "
        "threw_up_everything making_herself_sick plans_attacks mass_shooters wants_to_shoot "
        "people_to_shoot naked_pictures_of revenge_porn naked_pictures launder_cash stolen_cards "
        "working_firearm smuggle_drugs pick_the_lock shut_down_the leave_bruises forge_a forces_me "
        "beat_up home_address fake_login driving_into_a in_secret cyanide ricin molotov napalm silencer "
        "ied grenade bombing hostage kidnap kidnapping strangle stab_someone date_rape roofie "
        "sextortion blackmail swatting ddos_attack sql_injection_on zero-day rootkit trojan spyware "
        "credit_card_skimmer counterfeit_money crack_cocaine lsd mdma ketamine opiates withdrawal_from "
        "binge_and_purge make_a_bomb build_a_bomb pipe_bomb nerve_agent bioweapon ransomware malware "
        "keylogger botnet domestic_violence sexual_assault human_trafficking school_shooting sarin "
        "meth_lab cook_meth hits_me beats_me hit_me touches_me rape raped molested overdose overdosed "
        "abuser sleeping_pills phishing_email t_go_on background_check wiped_out hate_speech "
        "ethnic_cleansing stalk_an following_me_home kill_me kills_me kill_him kill_her ghost_gun "
        "explosives poison_my being_abused fake_id stop_eating stopped_eating pro-ana hate_my_body"
    ),
    2.0: (
        "jumping_off explosive explode hack_into meth heroin fentanyl cocaine poison lethal weapon "
        "abuse abusive stalking stalk stalker doxx dox untraceable undetected bringing_a_gun buy_a_gun "
        "a_gun shoot_up without_being_noticed without_getting_caught without_her_noticing "
        "without_him_noticing jump_off break_into self-harmed relapsed relapse the_brakes_on "
        "hides_from_antivirus evade leaves_no_trace no_trace metal_detectors counterfeit launder ddos "
        "assassinate massacre terrorist extremist how_many_pills where_she_lives where_he_lives groomed "
        "grooming_a lethal_dose whole_bottle  stop_crying purging anorexia bulimia scared_to_leave "
        "i_m_scared bullied spy_on"
    ),
    1.5: (
        "bomb phishing gun knife threatened threatening violent violence attack synthesised trafficking "
        "crying pills"
    ),
    1.0: (
        "shoot shooting firearm drugs smuggle rope choked angry attacks forge steals passwords captures "
        "punish blacked_out drinking kid alone alight basement get_you_high address journalist "
        "disappear disappeared gone weapons steal scared drunk drinks hide hiding antivirus kill hurt "
        "ex school bullies noticing pictures teenager abused touched girlfriend boyfriend anymore "
        "competitor hopeless worthless tell_anyone "
    ),
    0.5: "dangerous police phone house parents die dead",
}
_CODE: Points = {
    3.0: (
        "write_a_class bank_account_class cron_job curl_command container_image stack_trace "
        "segmentation_fault null_pointer pull_request unit_test unit_tests for_loop type_hints "
        "time_complexity borrow_checker merge_conflict environment_variable"
    ),
    2.0: (
        "dictionaries typescript_say dict numpy jest graphql makefile nested_loops interpreter gunicorn "
        "systemd chmod openapi pagination zombie binary_search rotated off-by-one big_o debounce "
        "debounces websocket_drops vscode vs_code closures one-liner migration closures_with merge_two "
        "smart_contract python javascript typescript java kotlin golang rust sql css regex kubernetes "
        "docker php ruby scala haskell perl traceback compiler compile compiled mutex semaphore "
        "deadlock refactor goroutine postgres mysql sqlite mongodb redis linux ubuntu bash git github "
        "gitlab npm pip pytest junit api django flask fastapi react vue angular node node.js c20 "
        "lock-free websocket demeter solidity segfault terraform ansible nginx webhook frontend backend "
        "stylesheet flexbox json_parser linked_list binary_tree hash_map typeerror valueerror "
        "nullpointerexception undefined dijkstra coroutine async await oomkilled rollback rate_limiter "
        "lru_cache debugger breakpoint codebase repo repository rebase monad function_to div one-liner "
        "kill_the_process kill_process endpoint xcode android_studio localhost ssh ci_cd pods "
        "dockerfile makefile garbage_collector garbage_collection app_crashes recursion s3_bucket "
        "http_client prints"
    ),
    1.5: (
        "debug html algorithm array exception module parser deploy deployed "
        "keyword callback server database query implement cache lru "
        "iterate int struct pointer heap priority_queue mock runtime library_function parameters "
        "parse cli yaml microservice"
    ),
    1.0: (
        "code function class method bug queue script string variable loop thread process port "
        "index commit branch merge test_cases page crash crashes upload scanner render "
        "component element arguments app prints_out c virus_scanner consumer grid dashboard execute message "
        "json service line install package build type"
    ),
}
_MATH: Points = {
    2.5: (
        "show_that prove_that square_root standard_deviation induction_to complete_the_square greatest_common"
    ),
    2.0: (
        "theorem integral polynomial eigenvalue derivative lemma modulo irrational prove "
        "quadratic trigonometric logarithm logarithms bijection inequality combinatorial laplace fourier "
        "converges diverges cauchy-schwarz cyclic perimeter equation triangle probability algebra geometry "
        "calculus fraction factorial remainder_when consecutive_odd consecutive_integers digit_of log_base "
        "how_many_ways many_ways simplify solve_for is_prime a_prime round_table prime_number "
        "solve_the_system least_common percent_of two_dice roll_two dividing_by_zero divide_by_zero "
        "do_they_meet tangent_line to_a_decimal how_fast_is twice_as_many mph area_of "
        "volume_of circumference hypotenuse radius vertices surjective injective isomorphic topology_of"
    ),
    1.5: (
        "matrix integer prime primes sum divisible sqrt sine cosine tangent digits pi "
        "monotone bounded continuous sequence series determinant subset coefficient median"
    ),
    1.0: (
        "solve compute calculate how_many how_much each_one altogether minutes hours miles per_hour "
        "product angle square root positive remainder graph evaluate decimal rectangle circle length "
        "width workers apples discount together they_meet factor ladder feet ft group rank system "
        "chance area equals twice dice zeros induction identity"
    ),
    0.5: "find number many times long odd even rational",
}
_EXTRACTION: Points = {
    3.0: (
        "named_entities named_entity classify_this classify_the classify_each as_json as_a_csv sentiment_of "
        "following_tweet positive_or_negative negative_or_neutral label_the extract_all action_items "
        "entailment entailed_by toxic_or in_a_csv into_a_table json_object extract_the"
    ),
    2.5: (
        "fill_in_this return_total read_the_invoice does_the_comment contain_hate mentioned_in "
        "find_every pull_out_all give_me_only decide_whether assign_a_priority make_a_table collect_the "
        "spot_the out_of_this take_the_question label_each tag_the parts_of_speech "
        "from_the_contract convert_these detect_the_language just_list sort_the count_how_often "
        "identify_all choose_the_best question_is_a extract classify categorize categorise "
        "clickbait parse_the parse_this tag_each label_each mark_each sort_these group_these route_this "
        "pull_the pull_out pick_out list_every get_me_the identify_the which_category return_only "
        "of_the_labels assign_one from_the_text fill_the_fields user_utterance the_intent output_a_json "
        "are_spam flag_the names_and_dates grab_the annotate_the select_the_sentence positive_or "
        "mean_the_same from_each_of detect_whether transcript_below from_the_transcript highlight_the "
        "structure_the is_this_headline recognize_the the_rows"
    ),
    1.5: "sentiment json_format spam entities utterance toxicity annotate csv tweet",
    1.0: (
        "json fields label labels table list_all ticket category categories rows row below topic "
        "following each neutral positive negative review reviews email transcript headline passage"
    ),
    0.5: "text list sentence output return",
}
_CREATIVE: Points = {
    3.0: (
        "write_a_poem short_story bedtime_story fairy_tale tongue_twister song_lyrics ghost_story "
        "horror_story free_verse plot_twist science_fiction world-building worldbuilding sea_shanty "
        "me_a_joke funny_caption screenplay villanelle one-act_play wedding_toast love_letter"
    ),
    2.5: (
        "poem haiku limerick lyrics slogan sonnet tagline joke acrostic rap_verse monologue myth_that "
        "scene_in detective_novel write_a_dialogue comic_dialogue a_toast ad_copy pen_a compose_a "
        "spin_a_yarn character_sketch from_the_perspective riddle write_a_letter rewrite_the_ending "
        "continue_the_tale continue_the_story act_as_a act_as_an pretend_to_be imagine_a "
        "come_up_with make_up_a in_the_style a_play scene_for play_about story_about parody satire "
        "catchy"
    ),
    1.5: (
        "story song novel fiction verse rhyme rhyming caption tale fantasy witty playful "
        "thriller prose memoir metaphor myth ballad invent dialogue scene"
    ),
    1.0: "character describe_the vivid funny silly titles robots dragon",
    0.5: "write tell imagine draft create names_for",
}
ENGLISH: Mapping[str, Points] = {
    "legal": _LEGAL,
    "medical": _MEDICAL,
    "finance": _FINANCE,
    "safety": _SAFETY,
    "code": _CODE,
    "math": _MATH,
    "extraction": _EXTRACTION,
    "creative": _CREATIVE,
}

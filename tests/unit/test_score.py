import json
import random

import pytest
import sacrebleu

from explicit_sparse.tools import score

REFERENCE = [
    'He said, "Don\'t go to the well-known house."',
    "In the beginning God created the heavens & the earth.",
    "There was light.",
    "They went up to the city, all of them together.",
]
TOKENS = [
    "He said , &quot; Don &apos;t go to the well-known house . &quot;",
    "In the beginning God created the heavens &amp; the earth .",
    "There was light .",
    "They went up to the city , all of them together .",
]


def prepare(folder, reference=REFERENCE, tokens=TOKENS, **changes):
    manifest = {
        "source_lang": "de", "target_lang": "en", "bpe": "subword-nmt", "tokenizer": "sacremoses", "lowercase": False,
        "subsets": {"test": {"pairs": len(reference), "name": "four verses"}},
    }  # fmt: skip
    manifest.update(changes)
    for part, lines in (("ref", reference), ("tok", tokens)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / part / "test.en").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def cut(line):
    return " ".join(f"{word[:2]}@@ {word[2:]}" if len(word) > 3 and word[0].isalpha() else word for word in line.split())


def log_of(hypotheses):
    """fairseq-generate's output: sources and scores beside the hypotheses, in an order of its own."""
    numbered = list(enumerate(hypotheses))
    random.Random(3).shuffle(numbered)
    lines = ["2026-01-01 | INFO | fairseq_cli.generate | loading model(s)"]
    for index, text in numbered:
        lines += [f"S-{index}\tquelle", f"T-{index}\tziel", f"H-{index}\t-0.5\t{text}", f"D-{index}\t-0.5\t{text}"]
        lines += [f"P-{index}\t-0.1 -0.2"]
    return lines


def test_perfect_translation_scores_100_everywhere(tmp_path):
    scores, detokenised, tokens = score.score_subset(log_of(map(cut, TOKENS)), prepare(tmp_path), "test")
    assert detokenised == REFERENCE
    assert tokens == TOKENS
    assert scores["bleu"]["score"] == scores["chrf"]["score"] == scores["tokenised_bleu"]["score"] == 100
    assert scores["sentences"] == 4 and scores["name"] == "four verses"


def test_bleu_is_sacrebleus_on_text_and_on_tokens(tmp_path):
    hypotheses = [TOKENS[0].replace("house", "home"), *TOKENS[1:3], TOKENS[3].replace("all of them ", "")]
    scores, detokenised, tokens = score.score_subset(log_of(map(cut, hypotheses)), prepare(tmp_path), "test")
    assert scores["bleu"]["score"] == round(sacrebleu.corpus_bleu(detokenised, [REFERENCE]).score, 2)
    assert scores["chrf"]["score"] == round(sacrebleu.corpus_chrf(detokenised, [REFERENCE]).score, 2)
    on_tokens = sacrebleu.corpus_bleu(tokens, [TOKENS], tokenize="none", force=True).score
    assert scores["tokenised_bleu"] == {"score": round(on_tokens, 2), "label": "tokenised (sacremoses)"}
    assert on_tokens != scores["bleu"]["score"]
    assert "tok:13a" in scores["bleu"]["signature"] and "bs:1000|seed:12345" in scores["bleu"]["signature"]
    assert scores["bleu"]["ci"] > 0


def test_lowercased_data_says_so(tmp_path):
    lower = [line.lower() for line in TOKENS]
    prepared = prepare(tmp_path, tokens=lower, lowercase=True)
    scores, _, _ = score.score_subset(log_of(map(cut, lower)), prepared, "test", bootstrap=0)
    assert scores["bleu"]["score"] == 100 and "case:lc" in scores["bleu"]["signature"]
    assert scores["tokenised_bleu"]["label"] == "tokenised (sacremoses), lowercased"
    assert "ci" not in scores["bleu"]


def test_compounds_are_split_at_hyphens_inside_words():
    assert score.split_compounds("a well-known state-of-the-art - x") == (
        "a well ##AT##-##AT## known state ##AT##-##AT## of ##AT##-##AT## the ##AT##-##AT## art - x"
    )


def test_compound_split_changes_the_tokenised_score_alone(tmp_path):
    hypotheses = log_of([TOKENS[0].replace("well-known", "little-known"), *TOKENS[1:]])
    plain, _, _ = score.score_subset(hypotheses, prepare(tmp_path), "test")
    split, _, _ = score.score_subset(hypotheses, prepare(tmp_path), "test", compound_split=True)
    assert split["tokenised_bleu"]["score"] > plain["tokenised_bleu"]["score"]
    assert split["tokenised_bleu"]["label"].endswith(", compound split")
    assert split["bleu"] == plain["bleu"]


@pytest.mark.parametrize(
    "bpe, text",
    [
        ("subword-nmt", "ex@@ pl@@ ained it wi@@ th@@"),
        ("sentencepiece", "\u2581ex pl ained \u2581it \u2581with"),
        ("none", "explained it with"),
    ],
)
def test_subwords_are_joined(bpe, text):
    assert score.join_subwords(text, bpe) == "explained it with"


def test_text_with_subwords_is_refused(tmp_path):
    with pytest.raises(ValueError, match="translation still holds subword units in line 1.*manifest"):
        score.score_subset(log_of(map(cut, TOKENS)), prepare(tmp_path, bpe="none"), "test")
    with pytest.raises(ValueError, match="translation still holds subword units"):
        score.score_subset(log_of(["\u2581He"] * 4), prepare(tmp_path), "test")


def test_a_reference_with_subwords_is_refused(tmp_path):
    with pytest.raises(ValueError, match="reference tok/test.en still holds subword units"):
        score.score_subset(log_of(TOKENS), prepare(tmp_path, tokens=list(map(cut, TOKENS))), "test")


@pytest.mark.parametrize(
    "hypotheses, message",
    [
        (TOKENS[:3], r"3 hypotheses for 4 references \(the first missing is number 3\): pass --required-batch-size"),
        (TOKENS + TOKENS[:1], "5 hypotheses for 4 references"),
        ([], "0 hypotheses for 4 references"),
    ],
)
def test_another_number_of_hypotheses_is_refused(tmp_path, hypotheses, message):
    with pytest.raises(ValueError, match=message):
        score.score_subset(log_of(hypotheses), prepare(tmp_path), "test")


def test_two_hypotheses_of_a_sentence_are_refused(tmp_path):
    with pytest.raises(ValueError, match="sentence . has two hypotheses: score with --nbest 1"):
        score.score_subset(log_of(TOKENS) + log_of(TOKENS), prepare(tmp_path), "test")


def test_empty_hypotheses_count(tmp_path):
    _, detokenised, _ = score.score_subset(log_of(["", *TOKENS[1:]]), prepare(tmp_path), "test")
    assert detokenised[0] == ""


def test_an_unknown_tokenizer_is_named():
    with pytest.raises(ValueError, match="tokenizer is 'mecab'; known are sacremoses, moses and none"):
        score.make_detokenizer("mecab", "en")


def test_command_line_writes_whole_files_and_prints_the_signature(tmp_path, capsys):
    log = tmp_path / "generate-test.log"
    log.write_text("\n".join(log_of(map(cut, TOKENS))) + "\n", encoding="utf-8")
    prepared = prepare(tmp_path / "toy")
    score.main(
        [str(log), "--prepared", str(prepared), "--output-dir", str(tmp_path), "--json", str(tmp_path / "scores.json")]
    )
    printed = capsys.readouterr().out
    assert "test (four verses), 4 sentences" in printed and "nrefs:1|bs:1000|seed:12345|case:mixed" in printed
    assert (tmp_path / "test.hyp").read_text(encoding="utf-8").splitlines() == REFERENCE
    assert (tmp_path / "test.hyp.tok").read_text(encoding="utf-8").splitlines() == TOKENS
    assert not list(tmp_path.glob("*.partial"))
    score.main(["--show", str(tmp_path / "scores.json")])
    assert capsys.readouterr().out == printed


def test_an_empty_last_reference_counts(tmp_path):
    prepared = prepare(tmp_path / "toy")
    for path in [*prepared.glob("ref/test.*"), *prepared.glob("tok/test.*")]:
        path.write_text(path.read_text("utf-8") + "\n", encoding="utf-8")
    scores, detokenised, _ = score.score_subset(log_of([*TOKENS, "x"]), prepared, "test", bootstrap=0)
    assert scores["sentences"] == len(detokenised) == 5


def test_a_missing_log_is_named(tmp_path, capsys):
    assert score.main([str(tmp_path / "generate-test.log"), "--prepared", str(prepare(tmp_path / "toy"))]) == 1
    assert capsys.readouterr().err == f"error: {tmp_path / 'generate-test.log'}: No such file or directory\n"


def test_command_line_failure_leaves_nothing(tmp_path, capsys):
    log = tmp_path / "generate-test.log"
    log.write_text("\n".join(log_of(TOKENS[:2])) + "\n", encoding="utf-8")
    assert score.main([str(log), "--prepared", str(prepare(tmp_path / "toy")), "--output-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("error: 2 hypotheses for 4 references")
    assert not list(tmp_path.glob("*.hyp*"))

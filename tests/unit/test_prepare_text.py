"""Tokens, cleaning and subwords are those of the tools whose names they carry."""

import os
from pathlib import Path

import pytest

from explicit_sparse.tools.prepare import parallel, segment
from explicit_sparse.tools.command import ToolError
from explicit_sparse.tools.prepare.text import moses_script, rejection, romanian, tokeniser

SENTENCES = ["It's a test, Mr. Smith & sons.", "“A” [b|c] <d>  e", "", "x\u2028y\u00a0z"]


def test_sacremoses_tokens():
    from sacremoses import MosesTokenizer

    expected = [" ".join(MosesTokenizer("en").tokenize(line, return_str=True).split()) for line in SENTENCES]
    assert tokeniser("en")()(SENTENCES) == expected
    assert tokeniser("en", lowercase=True)()(SENTENCES) == [line.lower() for line in expected]
    assert tokeniser("en", escape=False)()(["Tom & Co"]) == ["Tom & Co"]
    assert tokeniser("en", straight_apostrophe=True)()(["it’s"]) == ["it &apos;s"]


def test_a_language_that_is_tokenised_already_keeps_its_tokens():
    assert tokeniser("vi", tokenise=False)()(["a  b &apos;c ,d"]) == ["a b &apos;c ,d"]


def test_unprintable_characters_go_where_punctuation_is_normalised():
    assert tokeniser("en", normalise_punctuation=True)()(["a\u200bb «c»"]) == ["a b &quot; c &quot;"]


FAKE_TOKENIZER = """\
binmode(STDIN, ":utf8"); binmode(STDOUT, ":utf8");
my $options = join(",", @ARGV);
while (<STDIN>) { chomp; exit 0 if /STOP/; die "no way\\n" if /DIE/; s/([.,])/ $1/g; print "$_ |$options\\n"; }
"""


@pytest.fixture
def checkout(tmp_path):
    """A stand-in for a Moses checkout: the same place, options and way of working."""
    script = tmp_path / "mosesdecoder" / "scripts" / "tokenizer" / "tokenizer.perl"
    script.parent.mkdir(parents=True)
    script.write_text(FAKE_TOKENIZER)
    return tmp_path / "mosesdecoder"


def test_perl_scripts_are_found_and_called_as_moses_needs(checkout):
    for folder in (checkout, checkout / "scripts", checkout / "scripts" / "tokenizer"):
        assert moses_script(folder, "tokenizer.perl").is_file()
    tokens = tokeniser("de", moses=checkout, lowercase=True)()(["Häuser, ja.", "", "Zwei."])
    assert tokens == ["häuser , ja . |-q,-l,de,-threads,1", "|-q,-l,de,-threads,1", "zwei . |-q,-l,de,-threads,1"]
    assert tokeniser("de", moses=checkout, escape=False)()(["a"]) == ["a |-q,-l,de,-threads,1,-no-escape"]
    with pytest.raises(ToolError, match="no tokenizer.perl in"):
        moses_script(checkout.parent, "tokenizer.perl")


@pytest.mark.parametrize("lines", [["a", "", "b"], ["a", "b", ""], ["", ""], [""], []])
def test_perl_scripts_give_back_empty_lines_wherever_they_are(checkout, lines):
    assert len(tokeniser("de", moses=checkout)()(lines)) == len(lines)


def test_a_tokeniser_that_stops_early_is_noticed(checkout, tmp_path):
    (tmp_path / "in").write_text("a\nSTOP\nb\n")
    with pytest.raises(ToolError, match="in: 3 lines went in and 1 came out"):
        parallel.transform_files([(tokeniser("de", moses=checkout), tmp_path / "in", tmp_path / "out")], 1)
    (tmp_path / "in").write_text("a\nDIE\n")
    with pytest.raises(ToolError, match="no way"):
        parallel.transform_files([(tokeniser("de", moses=checkout), tmp_path / "in", tmp_path / "out")], 1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "source, target, limits, reason",
    [
        ("a b", "c d e", (1, 175, 1.5), None),
        ("a b", "c d e f", (1, 175, 1.5), "length ratio above 1.5"),
        ("a b c d", "e f", (1, 175, 1.5), "length ratio above 1.5"),
        ("a", "b c d e f g h i j k", (1, 175, 0), None),
        ("", "a", (1, 175, 1.5), "empty line"),
        (" ".join("a" * 176), " ".join("b" * 170), (1, 175, 1.5), "not 1 to 175 tokens"),
        (" ".join("a" * 175), " ".join("b" * 170), (1, 175, 1.5), None),
        ("a" * 1001, "b", (1, 175, 1.5), "a word of more than 1000 characters"),
        ("a" * 1000, "b", (1, 175, 1.5), None),
    ],
)
def test_cleaning_is_clean_corpus_n(source, target, limits, reason):
    assert rejection(source, target, limits) == reason


def test_romanian():
    text = "Ţara şi oraşul în câmpie, Şase ţări"
    assert romanian(text, "keep") == text
    assert romanian(text, "normalise") == "Țara și orașul în câmpie, Șase țări"
    assert romanian(text, "strip") == "Tara si orasul in campie, Sase tari"


# ---------------------------------------------------------------- subwords


@pytest.fixture
def corpus(tmp_path):
    for name, words in (("train.de", "haus häuser hausen baum bäume"), ("train.en", "house houses housing tree trees")):
        lines = [" ".join(words.split()[i % 5 :] + words.split()[: i % 3]) for i in range(40)]
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [tmp_path / "train.de", tmp_path / "train.en"]


def test_merges_and_segmentation_are_subword_nmts(corpus, tmp_path):
    from subword_nmt.apply_bpe import BPE
    from subword_nmt.learn_bpe import learn_bpe

    text = "".join(path.read_text(encoding="utf-8") for path in corpus)
    (tmp_path / "both").write_text(text, encoding="utf-8")
    with open(tmp_path / "both", encoding="utf-8") as both, open(tmp_path / "theirs", "w", encoding="utf-8") as out:
        learn_bpe(both, out, 25)
    segment.learn_subword_nmt(corpus, 25, tmp_path / "ours", 2)
    assert (tmp_path / "ours").read_text(encoding="utf-8") == (tmp_path / "theirs").read_text(encoding="utf-8")

    lines = text.strip().split("\n") + ["", "unseen words"]
    with open(tmp_path / "ours", encoding="utf-8") as codes:
        expected = [BPE(codes).process_line(line) for line in lines]
    assert segment.segmenter("subword-nmt", tmp_path / "ours")()(lines) == expected


def test_sentencepiece_round_trip(corpus, tmp_path):
    segment.learn_sentencepiece(corpus, 40, tmp_path / "spm.model")
    first = (tmp_path / "spm.model").read_bytes()
    lines = corpus[0].read_text(encoding="utf-8").strip().split("\n")
    pieces = segment.segmenter("sentencepiece", tmp_path / "spm.model")()(lines)
    assert [line.replace(" ", "").replace("\u2581", " ").strip() for line in pieces] == lines
    segment.learn_sentencepiece(corpus, 40, tmp_path / "spm.model")
    assert (tmp_path / "spm.model").read_bytes() == first


def test_whole_words():
    assert segment.segmenter("none", Path("nowhere"))()(["a b"]) == ["a b"]


# ---------------------------------------------------------------- processes


@pytest.mark.parametrize("text", ["", "\n", "a\n", "a\n\n\nb\n", "ab\n" * 50, "\n" * 9 + "x" * 30 + "\n"])
@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_pieces_of_a_file_are_the_file(tmp_path, monkeypatch, text, pieces):
    monkeypatch.setattr(parallel, "SMALLEST_PIECE", 1)
    monkeypatch.setattr(parallel, "BLOCK_LINES", 3)
    path = tmp_path / "text"
    path.write_text(text)
    lines = [
        line
        for limits in parallel.byte_ranges(path, pieces)
        for block in parallel.read_blocks(path, *limits)
        for line in block
    ]
    assert lines == text.split("\n")[:-1]


def test_jobs_keep_their_order_and_the_first_failure_is_told():
    assert parallel.run_jobs(lambda job: job * 2, list(range(7)), 3) == [0, 2, 4, 6, 8, 10, 12]
    with pytest.raises(ToolError, match="division"):
        parallel.run_jobs(lambda job: 1 // job, [1, 0], 2)
    with pytest.raises(ToolError, match="worker process died"):
        parallel.run_jobs(lambda job: os._exit(3), [1], 1)

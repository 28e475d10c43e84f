"""Scores fairseq-generate's output against the untouched reference.

    python -m explicit_sparse.tools.score generate-test.log --prepared prepared/demo --output-dir .

What the data's manifest.json says is undone: subword units are joined, tokenisation is reversed. Then

* sacreBLEU and chrF compare the detokenised text with the raw reference. Quote these, with the signature.
* tokenised BLEU compares tokens with the tokenised reference: the number of most older papers. It depends on the
  tokeniser, so it comes with a label. --compound-split also splits at hyphens, as papers on WMT English-German do.

<subset>.hyp (detokenised) and <subset>.hyp.tok, in the reference's order, go to --output-dir.
"""
import argparse
import re
import sys
from pathlib import Path

from sacrebleu.metrics import BLEU, CHRF

from .command import ToolError, command
from .files import read_object, sha256, write_json, writing

HYPOTHESIS = re.compile(r"^H-(\d+)\t[^\t]*\t(.*)$")
SUBWORD_NMT = re.compile(r"@@( |$)")
SENTENCEPIECE = "\u2581"
COMPOUND = re.compile(r"(\S)-(?=\S)")


def read_hypotheses(lines, expected):
    """Returns the best hypothesis of each sentence, in the order of the data set.

    fairseq sorts by length, and some releases drop the last batch: `expected` is the number of references.

    Raises
    ------
    ToolError
        when sentences are missing, too many, or translated twice
    """
    found = {}
    for line in lines:
        match = HYPOTHESIS.match(line.rstrip("\n"))
        if not match:
            continue
        index = int(match.group(1))
        if index in found:
            raise ToolError(f"sentence {index} has two hypotheses: score with --nbest 1, and one log at a time")
        found[index] = match.group(2)
    if len(found) != expected or sorted(found) != list(range(expected)):
        missing = sorted(set(range(expected)) - set(found))
        hint = "pass --required-batch-size-multiple 1 to fairseq-generate, which else may drop the last batch"
        which = f" (the first missing is number {missing[0]})" if missing else ""
        raise ToolError(f"{len(found)} hypotheses for {expected} references{which}: {hint}")
    return [found[index] for index in range(expected)]


def join_subwords(text, bpe):
    """Undoes subword segmentation; `bpe` is subword-nmt, sentencepiece or none."""
    if bpe == "subword-nmt":
        return SUBWORD_NMT.sub("", text).strip()
    if bpe == "sentencepiece":
        return text.replace(" ", "").replace(SENTENCEPIECE, " ").strip()
    if bpe == "none":
        return text
    raise ToolError(f"the manifest's bpe is '{bpe}'; known are subword-nmt, sentencepiece and none")


def check_joined(lines, what):
    """Raises ToolError where text still holds subword units: their BLEU is higher than that of words."""
    for number, line in enumerate(lines, 1):
        if SUBWORD_NMT.search(line) or SENTENCEPIECE in line:
            raise ToolError(
                f"{what} still holds subword units in line {number}: {line[:80]!r}. "
                "Set 'bpe' in the data's manifest.json to what the data was prepared with"
            )


def make_detokenizer(tokenizer, language):
    """Returns a function that turns tokens back into text; `tokenizer` is sacremoses, moses or none."""
    if tokenizer == "none":
        return lambda text: text
    if tokenizer in ("sacremoses", "moses"):
        from sacremoses import MosesDetokenizer

        detokenizer = MosesDetokenizer(lang=language)
        return lambda text: detokenizer.detokenize(text.split())
    raise ToolError(f"the manifest's tokenizer is '{tokenizer}'; known are sacremoses, moses and none")


def split_compounds(line):
    """Splits at the hyphens inside words, so that ``well-known`` counts as three tokens."""
    return COMPOUND.sub(r"\1 ##AT##-##AT## ", line)


def bleu(hypotheses, references, bootstrap=0, **options):
    """Returns sacreBLEU's score and signature, and the 95 % confidence interval's half-width where asked for."""
    metric = BLEU(**options)
    result = metric.corpus_score(hypotheses, [references], n_bootstrap=max(bootstrap, 1))
    entry = {"score": round(result.score, 2), "signature": str(metric.get_signature())}
    if bootstrap > 1:
        entry["ci"] = round(result._ci, 2)
    return entry


def chrf(hypotheses, references, lowercase=False):
    metric = CHRF(lowercase=lowercase)
    return {
        "score": round(metric.corpus_score(hypotheses, [references]).score, 2),
        "signature": str(metric.get_signature()),
    }


def tokenised_bleu(hypotheses, references, manifest, compound_split):
    label = f"tokenised ({manifest['tokenizer']})" if manifest["tokenizer"] != "none" else "as the data is tokenised"
    if manifest["lowercase"]:
        label += ", lowercased"
    if compound_split:
        label += ", compound split"
        hypotheses, references = map(split_compounds, hypotheses), map(split_compounds, references)
    result = bleu(list(hypotheses), list(references), tokenize="none", force=True)
    return {"score": result["score"], "label": label}


def read_lines(path):
    """Splits at line feeds only: other separators may stand inside a sentence."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return lines[:-1] if lines[-1] == "" else lines  # what ends with a line feed; an empty last line counts


def score_subset(log_lines, prepared, subset, bootstrap=1000, tokenize=None, compound_split=False):
    """Scores one data set.

    Returns
    -------
    (scores, detokenised hypotheses, tokenised hypotheses)
        scores as in the "test" part of run.json, without the files' names
    """
    manifest = read_object(prepared / "manifest.json", "target_lang", "bpe", "tokenizer", "lowercase", "subsets")
    language = manifest["target_lang"]
    raw = read_lines(prepared / "ref" / f"{subset}.{language}")
    tokens = read_lines(prepared / "tok" / f"{subset}.{language}")
    if len(raw) != len(tokens):
        raise ToolError(f"{prepared}: {len(raw)} lines in ref/{subset}.{language}, {len(tokens)} in tok/")
    for lines, folder in ((raw, "ref"), (tokens, "tok")):
        check_joined(lines, f"the reference {folder}/{subset}.{language}")

    hypotheses = [join_subwords(text, manifest["bpe"]) for text in read_hypotheses(log_lines, len(raw))]
    check_joined(hypotheses, "the translation")
    detokenize = make_detokenizer(manifest["tokenizer"], language)
    detokenised = [detokenize(text) for text in hypotheses]

    options = {"lowercase": manifest["lowercase"]}
    if tokenize:
        options["tokenize"] = tokenize
    scores = {
        "name": manifest["subsets"].get(subset, {}).get("name", subset),
        "sentences": len(raw),
        "sha256_reference": sha256(prepared / "ref" / f"{subset}.{language}"),
        "bleu": bleu(detokenised, raw, bootstrap, **options),
        "chrf": chrf(detokenised, raw, manifest["lowercase"]),
        "tokenised_bleu": tokenised_bleu(hypotheses, tokens, manifest, compound_split),
    }
    return scores, detokenised, hypotheses


def report(subset, scores):
    """Returns what a user should read and quote, as text."""
    bleu_score, chrf_score, tokenised = scores["bleu"], scores["chrf"], scores["tokenised_bleu"]
    interval = " ± {:.2f}".format(bleu_score["ci"]) if "ci" in bleu_score else ""
    name = subset if scores["name"] == subset else f"{subset} ({scores['name']})"
    return (
        f"{name}, {scores['sentences']} sentences\n"
        f"  sacreBLEU       {bleu_score['score']:.2f}{interval}  {bleu_score['signature']}\n"
        f"  chrF            {chrf_score['score']:.2f}  {chrf_score['signature']}\n"
        f"  tokenised BLEU  {tokenised['score']:.2f}  {tokenised['label']}"
    )


def subset_of(log):
    match = re.match(r"^generate-(.+)\.log$", log.name)
    if not match:
        raise ToolError(f"cannot tell the data set from the name of {log}: give --subset")
    return match.group(1)


@command
def main(argv=None):
    parser = argparse.ArgumentParser(
        prog="score", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("logs", nargs="*", type=Path, help="output of fairseq-generate, named generate-<subset>.log")
    parser.add_argument("--prepared", type=Path, help="folder of the prepared data")
    parser.add_argument("--subset", help="the data set's name, where it is not in the log's")
    parser.add_argument("--output-dir", type=Path, help="where the hypotheses go")
    parser.add_argument("--json", type=Path, help="where the scores go")
    parser.add_argument("--bootstrap", type=int, default=1000, help="resamples for the interval, 0: none (default: 1000)")
    parser.add_argument("--tokenize", help="sacreBLEU's own tokeniser (default: its choice, 13a)")
    parser.add_argument("--compound-split", action="store_true", help="tokenised BLEU with words split at hyphens")
    parser.add_argument("--show", type=Path, metavar="JSON", help="only print scores written earlier")
    args = parser.parse_args(argv)
    if args.show:
        for subset, scores in read_object(args.show).items():
            print(report(subset, scores))
        return
    if not args.logs or not args.prepared:
        parser.error("give the output of fairseq-generate, and the prepared data with --prepared")
    if args.subset and len(args.logs) > 1:
        parser.error("--subset names one data set, but there are several logs")

    everything = {}
    for log in args.logs:
        subset = args.subset or subset_of(log)
        scores, detokenised, tokens = score_subset(
            read_lines(log), args.prepared, subset, args.bootstrap, args.tokenize, args.compound_split
        )
        everything[subset] = scores
        if args.output_dir:
            for suffix, sentences in ((".hyp", detokenised), (".hyp.tok", tokens)):
                with writing(args.output_dir / f"{subset}{suffix}") as file:
                    file.write("\n".join(sentences) + "\n")
        print(report(subset, scores))
    if args.json:
        write_json(args.json, everything)


if __name__ == "__main__":
    sys.exit(main())

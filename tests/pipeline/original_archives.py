"""Small archives of the true layout: the real files' names, folders, tags, XML and SGML, around made-up sentences.

``build(folder)`` lays them out under the paths of their real URLs, so that a web server on ``folder`` answers like the
official ones. Nothing in them is from the real data.
"""

import gzip
import io
import lzma
import random
import tarfile
import zipfile

WORDS = {
    "de": "Haus Hund Katze Straße Bäume läuft schläft sieht kleine große rote heute immer schnell".split(),
    "en": "house dog cat street trees runs sleeps sees small big red today always quickly".split(),
    "fr": "maison chien chat rue arbres court dort voit petite grande rouge aujourd'hui toujours vite".split(),
    "vi": "nhà chó mèo đường cây chạy ngủ thấy nhỏ lớn đỏ hôm_nay luôn nhanh".split(),
    "ro": "casa câinele pisica strada copacii aleargă doarme vede mică mare roşie astăzi mereu repede".split(),
    "ja": "家 犬 猫 通り 木 走る 眠る 見る 小さい 大きい 赤い 今日 いつも 速く".split(),
}


def sentences(count, seed, languages, tokenised=False):
    """``count`` tuples of sentences, word by word translations of each other."""
    generator = random.Random(seed)
    result = []
    for _ in range(count):
        chosen = [generator.randrange(14) for _ in range(generator.randint(4, 9))]
        stop = " ." if tokenised else "."
        result.append(tuple(" ".join(WORDS[language][i] for i in chosen).capitalize() + stop for language in languages))
    return result


def side(pairs, index):
    return [pair[index] for pair in pairs]


def plain(lines):
    return ("\n".join(lines) + "\n").encode("utf-8")


def tagged(talks, language, pair):
    """An IWSLT training file: talks with their headers."""
    out = []
    for number, lines in enumerate(talks, 1):
        out += [
            f"<url>http://www.ted.com/talks/lang/{language}/talk_{number}.html</url>",
            "<keywords>science, global issues</keywords>",
            f"<speaker>Speaker {number}</speaker>",
            f"<talkid>{number}</talkid>",
            f"<title>{lines[0].rstrip('.')}</title>",
            f"<description>TED Talk: {lines[1]}</description>",
            *(f" {line} " for line in lines),
            "<reviewer>R. Viewer</reviewer>",
            "<translator>T. Ranslator</translator>",
        ]
    return plain(out)


def ted_xml(lines, language, name):
    segments = [f'<seg id="{number}"> {line} </seg>' for number, line in enumerate(lines, 1)]
    return plain(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            "<mteval>",
            f'<srcset setid="{name}" srclang="{language}">',
            '<doc docid="69" genre="lectures">',
            "<url>http://www.ted.com/talks/x.html</url>",
            "<description>&lt;em&gt;About&lt;/em&gt; something.</description>",
            "<talkid>69</talkid>",
            "<title>A title</title>",
            *segments,
            "</doc>",
            "</srcset>",
            "</mteval>",
        ]
    )


def sgml(lines, kind, language):
    segments = [f'<seg id="{number}">{line}</seg>' for number, line in enumerate(lines, 1)]
    return plain(
        [
            f'<{kind}set setid="newstest" srclang="any" trglang="{language}">',
            '<doc sysid="ref" docid="some-newspaper.1" genre="news" origlang="en">',
            "<p>",
            *segments,
            "</p>",
            "</doc>",
            f"</{kind}set>",
        ]
    )


def tar(files):
    """A tar with fixed times, so that its bytes are always the same."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def tgz(files):
    return gzip.compress(tar(files), mtime=0)


def zipped(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return content.getvalue()


# ---------------------------------------------------------------- one function a data set: {path of the URL: bytes}


def iwslt14_de_en(train=92):
    pairs = sentences(train, 14, ("de", "en"))
    talks = [pairs[:60], pairs[60:]]
    files = {"de-en/README": b"IWSLT 2014\n", "de-en/._train.tags.de-en.de": b"\x00\x05\x16\x07 resource fork"}
    for index, language in enumerate(("de", "en")):
        files[f"de-en/train.tags.de-en.{language}"] = tagged([side(talk, index) for talk in talks], language, "de-en")
    for seed, talk in enumerate(("TED.dev2010", "TED.tst2010", "TED.tst2011", "TED.tst2012", "TEDX.dev2012")):
        pairs = sentences(3, seed, ("de", "en")) + [("Das ist R&amp;D, sagt’s.", "It’s R&amp;D, he said.")]
        for index, language in enumerate(("de", "en")):
            files[f"de-en/IWSLT14.{talk}.de-en.{language}.xml"] = ted_xml(side(pairs, index), language, talk)
    return {"fairseq/data/iwslt14/de-en.tgz": tgz(files)}


def iwslt15_en_vi(mirror=True):
    """The mirror's archives, or Stanford's plain files."""
    files = {}
    for name, archive, count in (("train", "train", 80), ("tst2012", "dev-2012", 6), ("tst2013", "test-2013", 5)):
        pairs = sentences(count, count, ("en", "vi"), tokenised=True)
        if name == "train":
            pairs[7] = ("It &apos;s here .", "")  # the real training set has empty lines too
        members = {f"{name}.{language}": plain(side(pairs, index)) for index, language in enumerate(("en", "vi"))}
        if mirror:
            files[f"stefan-it/nmt-en-vi/raw/master/data/{archive}-en-vi.tgz"] = tgz(members)
        else:
            files.update({f"projects/nmt/data/iwslt15.en-vi/{member}": data for member, data in members.items()})
    return files


def wmt14_en_de(packed="tgz"):
    """statmt's archives; packed="zip" gives the mirror's Europarl instead."""

    def parts(name, count, seed):
        pairs = sentences(count, seed, ("en", "de"))
        others = {f"{name}.fr-en.fr": plain(["Autre."]), f"{name}.fr-en.en": plain(["Other."])}
        return {
            **others,
            **{f"{name}.de-en.{language}": plain(side(pairs, i)) for i, language in enumerate(("en", "de"))},
        }

    valid, test = sentences(7, 13, ("en", "de")), sentences(9, 14, ("en", "de")) + [
        ('Say "A-B" &amp; C.', "Sag „A-B“ &amp; C.")
    ]
    europarl = parts("training/europarl-v7", 60, 1)
    files = {
        "wmt13/training-parallel-commoncrawl.tgz": tgz(parts("commoncrawl", 30, 2)),
        "wmt14/training-parallel-nc-v9.tgz": tgz(parts("training/news-commentary-v9", 20, 3)),
        "wmt16/translation-task/training-parallel-nc-v11.tgz": tgz(
            parts("training-parallel-nc-v11/news-commentary-v11", 25, 4)
        ),
        "wmt13/test.tgz": tgz(
            {
                "test/newstest2013-src.en.sgm": sgml(side(valid, 0), "src", "en"),
                "test/newstest2013-src.de.sgm": sgml(side(valid, 1), "src", "de"),
            }
        ),
        "wmt14/test-full.tgz": tgz(
            {
                "test-full/newstest2014-deen-src.en.sgm": sgml(side(test, 0), "src", "en"),
                "test-full/newstest2014-deen-ref.de.sgm": sgml(side(test, 1), "ref", "de"),
            }
        ),
    }
    if packed == "zip":
        files["datasets/wmt/wmt13/resolve/main-zip/training-parallel-europarl-v7.zip"] = zipped(europarl)
    else:
        files["wmt13/training-parallel-europarl-v7.tgz"] = tgz(europarl)
    return files


def _iwslt17(source):
    pair = f"{source}-en"
    languages = (source, "en")
    train = sentences(80, 17, languages)
    files = {}
    for index, language in enumerate(languages):
        files[f"{pair}/train.tags.{pair}.{language}"] = tagged([side(train, index)], language, pair)
    for seed, talk in enumerate(("dev2010", "tst2010", "tst2011", "tst2012", "tst2013", "tst2014", "tst2015")):
        pairs = sentences(3, seed, languages)
        for index, language in enumerate(languages):
            files[f"{pair}/IWSLT17.TED.{talk}.{pair}.{language}.xml"] = ted_xml(side(pairs, index), language, talk)
    last = sentences(4, 2017, languages)
    sources = {f"{pair}/IWSLT17.TED.tst2017.{pair}.{source}.xml": ted_xml(side(last, 0), source, "tst2017")}
    targets = {f"en-{source}/IWSLT17.TED.tst2017.en-{source}.en.xml": ted_xml(side(last, 1), "en", "tst2017")}
    return {
        f"data/2017-01-trnted/texts/{source}/en/{pair}.tgz": tgz(files),
        f"archive/2017-01-ted-test/texts/{source}/en/{pair}.tgz": tgz(sources),
        f"archive/2017-01-ted-test/texts/en/{source}/en-{source}.tgz": tgz(targets),
    }


def iwslt17_fr_en():
    return _iwslt17("fr")


def iwslt17_de_en():
    return _iwslt17("de")


def wmt16_en_ro(organisers=True):
    files, last = {}, None
    for split, count in (("train", 80), ("val", 6), ("test", 5)):
        last = sentences(count, count, ("en", "ro"))
        files[f"wmt_en_ro/{split}.source"], files[f"wmt_en_ro/{split}.target"] = (plain(side(last, i)) for i in (0, 1))
    result = {"translation/wmt_en_ro.tar.gz": tgz(files)}
    if organisers:
        test = {
            "test/newstest2016-enro-src.en.sgm": sgml(side(last, 0), "src", "en"),
            "test/newstest2016-enro-ref.ro.sgm": sgml(side(last, 1), "ref", "ro"),
        }
        result["wmt16/translation-task/test.tgz"] = tgz(test)
    return result


def kftt_ja_en():
    files = {"kftt-data-1.0/README": b"KFTT\n"}
    for split, count in (("train", 80), ("dev", 6), ("test", 5)):
        pairs = sentences(count, count, ("ja", "en"))
        for folder in ("orig", "tok"):
            japanese = side(pairs, 0) if folder == "tok" else [line.replace(" ", "") for line in side(pairs, 0)]
            files[f"kftt-data-1.0/data/{folder}/kyoto-{split}.ja"] = plain(japanese)
            files[f"kftt-data-1.0/data/{folder}/kyoto-{split}.en"] = plain(side(pairs, 1))
    return {"kftt/download/kftt-data-1.0.tar.gz": tgz(files)}


def multi30k_de_en():
    files = {}
    for split, count in (("train", 80), ("val", 6), ("test_2016_flickr", 5)):
        pairs = sentences(count, count, ("de", "en"))
        for index, language in enumerate(("de", "en")):
            files[f"data/task1/raw/{split}.{language}.gz"] = gzip.compress(plain(side(pairs, index)), mtime=0)
    return files


def open_de_en():
    files = {}
    for split, count in (("train", 80), ("valid", 6), ("test", 5)):
        pairs = sentences(count, count, ("de", "en"))
        for index, language in enumerate(("de", "en")):
            files[f"de-en/{split}.{language}"] = plain(side(pairs, index))
    return {"de-en.tar.xz": lzma.compress(tar(files))}


ALL = {
    "iwslt14.de-en": iwslt14_de_en,
    "iwslt15.en-vi": iwslt15_en_vi,
    "wmt14.en-de": wmt14_en_de,
    "iwslt17.fr-en": iwslt17_fr_en,
    "wmt16.en-ro": wmt16_en_ro,
    "iwslt17.de-en": iwslt17_de_en,
    "kftt.ja-en": kftt_ja_en,
    "multi30k.de-en": multi30k_de_en,
    "open.de-en": open_de_en,
}


def build(folder, files):
    """Write {path: bytes} below ``folder``."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder

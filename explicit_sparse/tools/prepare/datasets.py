"""The data sets: where their files are, what is in them, and the recipe of each. Data only, no behaviour.

Sizes and checksums are the published ones; ``docs/data.md`` names the sources and says where a split
differs from what others use.
"""

from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Dict, Optional, Tuple
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Copy:
    """One place a file can be had from. ``name`` is what it is called on disk."""

    url: str
    bytes: Optional[int] = None
    sha256: Optional[str] = None
    md5: Optional[str] = None
    name: str = ""

    def __post_init__(self):
        if not self.name:
            object.__setattr__(self, "name", PurePosixPath(urlsplit(self.url).path).name)


@dataclass(frozen=True)
class Archive:
    """A file that has the same content wherever it comes from; copies are tried in order."""

    copies: Tuple[Copy, ...]


@dataclass(frozen=True)
class Part:
    """Some pairs of lines: two members of archives, read in the same way.

    ``reader`` is a key of ``extract.READERS``. ``target_archive`` is for the rare case that the two sides come in
    different files. ``instead`` is used when an archive cannot be had.
    """

    archive: Archive
    source: str
    target: str
    reader: str = "plain"
    target_archive: Optional[Archive] = None
    instead: Optional["Part"] = None


@dataclass(frozen=True)
class Subset:
    """What train, valid or a test set is made of; ``name`` is what others call it."""

    parts: Tuple[Part, ...]
    name: str = ""


@dataclass(frozen=True)
class Dataset:
    """A data set and its recipe.

    Attributes
    ----------
    valid : None where every ``valid_every``-th cleaned training pair becomes the validation set.
    tests : test, test1, … in this order.
    pretokenised : languages whose files are tokenised as released; they keep their tokens.
    normalise_punctuation : Moses' normalize-punctuation and removal of unprintable characters before tokenising.
    escape : whether the tokeniser writes ``&apos;`` for an apostrophe and so on, Moses' default.
    straight_apostrophe : replaces ’ by ' in the files of the test sets only, as fairseq's IWSLT14 recipe does.
    joined_dictionary : one dictionary for both languages, which models that share all embeddings need.
    clean : (shortest, longest, ratio) in tokens, as Moses' clean-corpus-n; training pairs only.
    vocab_size : BPE merges, or sentencepiece's vocabulary.
    counts : pairs to expect in each subset; exact where ``count_tokenizer`` is "" or the one used.
    member_sha256 : checksums of files inside archives.
    variants : other recipes for the same name, each with a flag of its own.
    """

    name: str
    source_lang: str
    target_lang: str
    train: Subset
    valid: Optional[Subset]
    tests: Tuple[Subset, ...]
    vocab_size: int
    valid_every: int = 0
    pretokenised: Tuple[str, ...] = ()
    lowercase: bool = False
    normalise_punctuation: bool = False
    escape: bool = True
    straight_apostrophe: bool = False
    romanian: str = ""
    joined_dictionary: bool = True
    clean: Tuple[int, int, float] = (1, 250, 0.0)
    counts: Dict[str, int] = field(default_factory=dict)
    count_tokenizer: str = ""
    member_sha256: Dict[str, str] = field(default_factory=dict)
    variants: Dict[str, "Dataset"] = field(default_factory=dict)


def _xml(archive: Archive, stem: str, source: str, target: str, **options) -> Part:
    return Part(archive, f"{stem}.{source}.xml", f"{stem}.{target}.xml", "segments", **options)


# ---------------------------------------------------------------- IWSLT14 De-En

_IWSLT14 = Archive(
    tuple(
        Copy(f"{host}/de-en.tgz", bytes=19_982_877, md5="10936dfdf616504ddbd844e91b94ef4a")
        for host in (
            "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14",
            "http://dl.fbaipublicfiles.com/fairseq/data/iwslt14",
            "https://wit3.fbk.eu/archive/2014-01/texts/de/en",
        )
    )
)
_IWSLT14_TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")

IWSLT14_DE_EN = Dataset(
    name="iwslt14.de-en",
    source_lang="de",
    target_lang="en",
    train=Subset((Part(_IWSLT14, "de-en/train.tags.de-en.de", "de-en/train.tags.de-en.en", "tagged"),)),
    valid=None,
    valid_every=23,
    tests=(
        Subset(
            tuple(_xml(_IWSLT14, f"de-en/IWSLT14.{talk}.de-en", "de", "en") for talk in _IWSLT14_TESTS),
            "dev2010+dev2012+tst2010+tst2011+tst2012",
        ),
    ),
    lowercase=True,
    straight_apostrophe=True,
    joined_dictionary=False,
    clean=(1, 175, 1.5),
    vocab_size=10_000,
    counts={"train": 160_239, "valid": 7_283, "test": 6_750},
    count_tokenizer="moses",
)

# ---------------------------------------------------------------- IWSLT15 En-Vi

_STANFORD = "https://nlp.stanford.edu/projects/nmt/data/iwslt15.en-vi"
_EN_VI_MIRROR = "https://github.com/stefan-it/nmt-en-vi/raw/master/data"
_EN_VI_SHA256 = {
    "train.en": "c26dfeed74b6bf3752f5ca552f2412456f0de153f7c804df8717931fb3a5c78a",
    "train.vi": "707206edf2dc0280273952c7b70544ea8a1363aa69aaeb9d70514b888dc3067d",
    "tst2012.en": "b8fbcd0d4199d41276421d1f7228298df67dd9e2c5c134c2ee8cdf3ec27801e2",
    "tst2012.vi": "01004078b3f36b0c46e81b65fc6851230b3c823405c76d1d82ef3b786b512ff0",
    "tst2013.en": "3860ce60bc5b85d96cc2d3d580cf1bc9d62440e939c1b964676d3607c4e8f1df",
    "tst2013.vi": "29af16842808da2812b8fd4d47fc05d082ba870e60ab7755090ad04b380994cd",
}


def _en_vi(stem: str, mirror: str, **checks) -> Part:
    """Stanford serves plain files; the mirror serves the same files in archives."""
    source, target = f"{stem}.en", f"{stem}.vi"
    plain = [Archive((Copy(f"{_STANFORD}/{name}", sha256=_EN_VI_SHA256[name]),)) for name in (source, target)]
    archive = Archive((Copy(f"{_EN_VI_MIRROR}/{mirror}-en-vi.tgz", **checks),))
    return Part(plain[0], source, target, target_archive=plain[1], instead=Part(archive, source, target))


_EN_VI_DEV = _en_vi(
    "tst2012",
    "dev-2012",
    bytes=103_520,
    sha256="04a0b7ce677cea8ad9dac65bca9492db8183dcfefa458f820597dc46d7486dad",
)
_EN_VI_TEST = _en_vi(
    "tst2013",
    "test-2013",
    bytes=102_940,
    sha256="0bbf7cc1ddc4bed68946b005edf9471478445e7994586a277ad4a4b0bb24caa4",
)

IWSLT15_EN_VI = Dataset(
    name="iwslt15.en-vi",
    source_lang="en",
    target_lang="vi",
    train=Subset((_en_vi("train", "train"),)),
    valid=Subset((_EN_VI_DEV,), "tst2012"),
    tests=(Subset((_EN_VI_TEST,), "tst2013"),),
    pretokenised=("en", "vi"),
    vocab_size=32_000,
    counts={"valid": 1_553, "test": 1_268},
    member_sha256=_EN_VI_SHA256,
)

# ---------------------------------------------------------------- WMT14 En-De

_STATMT = "https://www.statmt.org"
_DATA_STATMT = "https://data.statmt.org"
_HF_WMT = "https://huggingface.co/datasets/wmt"

_EUROPARL = Archive(
    (
        Copy(f"{_STATMT}/wmt13/training-parallel-europarl-v7.tgz"),
        Copy(
            f"{_HF_WMT}/wmt13/resolve/main-zip/training-parallel-europarl-v7.zip",
            bytes=658_092_427,
            sha256="5b2d8b32c2396da739b4e731871c597fcc6e75729becd74619d0712eecf7770e",
        ),
    )
)
_COMMONCRAWL = Archive(
    (
        Copy(f"{_STATMT}/wmt13/training-parallel-commoncrawl.tgz"),
        Copy(
            f"{_HF_WMT}/wmt13/resolve/main-zip/training-parallel-commoncrawl.zip",
            bytes=918_734_483,
            sha256="5ffe980072ea29adfd84568d099bea366d9f72772b988e670794ae851b4e5627",
        ),
    )
)
_NEWS_V9 = Archive(
    (
        Copy(f"{_STATMT}/wmt14/training-parallel-nc-v9.tgz"),
        Copy(
            f"{_HF_WMT}/wmt14/resolve/main-zip/training-parallel-nc-v9.zip",
            bytes=80_462_375,
            sha256="ce199f93ec56ff480137ba29f0819f9a22e70d88be6d7458f112303d67d623d5",
        ),
    )
)
_NEWS_V11 = Archive((Copy(f"{_DATA_STATMT}/wmt16/translation-task/training-parallel-nc-v11.tgz"),))
_WMT13_TEST = Archive(
    (Copy(f"{_STATMT}/wmt13/test.tgz", md5="48eca5d02f637af44e85186847141f67", name="wmt13-test.tgz"),)
)
_WMT19_DEV = Archive(
    (
        Copy(
            f"{_HF_WMT}/wmt19/resolve/main-zip/translation-task/dev.zip",
            bytes=38_714_274,
            sha256="d796e363740fdc4261aa6f5a3d2f8223e3adaee7d737b7724863325b8956dfd1",
            name="wmt19-dev.zip",
        ),
    )
)
_WMT14_TEST = Archive((Copy(f"{_STATMT}/wmt14/test-full.tgz", md5="a8cd784e006feb32ac6f3d9ec7eb389a"),))


def _wmt_train(archive: Archive, stem: str) -> Part:
    return Part(archive, f"{stem}.de-en.en", f"{stem}.de-en.de")


# wmt13/test.tgz holds newstest2013 as two "src" files; in dev.zip the German side is the "ref".
_NEWSTEST2013 = Part(
    _WMT13_TEST,
    "test/newstest2013-src.en.sgm",
    "test/newstest2013-src.de.sgm",
    "segments",
    instead=Part(_WMT19_DEV, "dev/newstest2013-src.en.sgm", "dev/newstest2013-ref.de.sgm", "segments"),
)

_WMT14_EN_DE = Dataset(
    name="wmt14.en-de",
    source_lang="en",
    target_lang="de",
    train=Subset(
        (
            _wmt_train(_EUROPARL, "training/europarl-v7"),
            _wmt_train(_COMMONCRAWL, "commoncrawl"),
            _wmt_train(_NEWS_V9, "training/news-commentary-v9"),
        )
    ),
    valid=Subset((_NEWSTEST2013,), "newstest2013"),
    tests=(
        Subset(
            (
                Part(
                    _WMT14_TEST,
                    "test-full/newstest2014-deen-src.en.sgm",
                    "test-full/newstest2014-deen-ref.de.sgm",
                    "segments",
                ),
            ),
            "newstest2014",
        ),
    ),
    normalise_punctuation=True,
    clean=(1, 250, 1.5),
    vocab_size=32_000,
    counts={"valid": 3_000, "test": 3_003},
)
WMT14_EN_DE = replace(
    _WMT14_EN_DE,
    variants={
        # Google's "WMT16" training data, which most WMT14 figures since 2017 rest on, from its parts.
        "rebuild-google": replace(
            _WMT14_EN_DE,
            train=Subset(
                (
                    _wmt_train(_EUROPARL, "training/europarl-v7"),
                    _wmt_train(_COMMONCRAWL, "commoncrawl"),
                    Part(
                        _NEWS_V11,
                        "training-parallel-nc-v11/news-commentary-v11.de-en.en",
                        "training-parallel-nc-v11/news-commentary-v11.de-en.de",
                    ),
                )
            ),
            normalise_punctuation=False,
            clean=(1, 80, 9.0),
        )
    },
)

# ---------------------------------------------------------------- IWSLT17

_HF_IWSLT17 = (
    "https://huggingface.co/datasets/iwslt2017/resolve/ebd7c60d9800c2a1be010a227e5f0a2363730f7a/data/2017-01-trnted"
)
_WIT3_TEST = "https://raw.githubusercontent.com/hlt-mt/WIT3/master/archive/2017-01-ted-test/texts"


def _iwslt17(source: str, bytes: int, sha256: str, md5_source: str, md5_target: str, **recipe) -> Dataset:
    pair = f"{source}-en"
    main = Archive(
        (Copy(f"{_HF_IWSLT17}/texts/{source}/en/{pair}.tgz", bytes=bytes, sha256=sha256, name=f"trnted-{pair}.tgz"),)
    )
    # The organisers' test archives hold only the source side; the references are the other direction's source.
    sources = Archive((Copy(f"{_WIT3_TEST}/{source}/en/{pair}.tgz", md5=md5_source, name=f"ted-test-{pair}.tgz"),))
    targets = Archive(
        (Copy(f"{_WIT3_TEST}/en/{source}/en-{source}.tgz", md5=md5_target, name=f"ted-test-en-{source}.tgz"),)
    )
    tst2017 = Part(
        sources,
        f"{pair}/IWSLT17.TED.tst2017.{pair}.{source}.xml",
        f"en-{source}/IWSLT17.TED.tst2017.en-{source}.en.xml",
        "segments",
        target_archive=targets,
    )
    years = ("2010", "2011", "2012", "2013", "2014", "2015")
    return Dataset(
        name=f"iwslt17.{pair}",
        source_lang=source,
        target_lang="en",
        train=Subset((Part(main, f"{pair}/train.tags.{pair}.{source}", f"{pair}/train.tags.{pair}.en", "untagged"),)),
        valid=Subset((_xml(main, f"{pair}/IWSLT17.TED.dev2010.{pair}", source, "en"),), "dev2010"),
        tests=(
            Subset(
                tuple(_xml(main, f"{pair}/IWSLT17.TED.tst{year}.{pair}", source, "en") for year in years),
                "tst2010-2015",
            ),
            Subset((tst2017,), "tst2017"),
        ),
        clean=(1, 175, 1.5),
        **recipe,
    )


IWSLT17_FR_EN = _iwslt17(
    "fr",
    bytes=26_872_507,
    sha256="a40ca3b9a0064bd1fd582df4ced260dd3e7ff9f6f7bf863f139f74b7a5cabd78",
    md5_source="79bf7a2ef02d226875f55fb076e7e473",
    md5_target="1849bcc3b006dc0642a8843b11aa7192",
    vocab_size=16_000,
    counts={"valid": 890, "test": 8_597},
)
IWSLT17_DE_EN = _iwslt17(
    "de",
    bytes=16_751_373,
    sha256="ebcd53c53c8df742437e3a0fb964772e78764c3f6d4e38df0b6a2f71abc3a8b4",
    md5_source="e3f5b2a075a2da1a395c8b60bf1e9be1",
    md5_target="b68e7097b179491f6c466ef41ad72b9b",
    vocab_size=32_000,
    counts={"valid": 888, "test": 8_079},
)

# ---------------------------------------------------------------- WMT16 En-Ro

_EN_RO = Archive(
    (
        Copy("https://cdn-datasets.huggingface.co/translation/wmt_en_ro.tar.gz"),
        Copy("https://s3.amazonaws.com/datasets.huggingface.co/translation/wmt_en_ro.tar.gz"),
    )
)
_WMT16_DEV = Archive((Copy(f"{_DATA_STATMT}/wmt16/translation-task/dev.tgz", name="wmt16-dev.tgz"),))
_WMT16_TEST = Archive(
    (
        Copy(
            f"{_DATA_STATMT}/wmt16/translation-task/test.tgz",
            md5="3d809cd0c2c86adb2c67034d15c4e446",
            name="wmt16-test.tgz",
        ),
    )
)


def _en_ro(split: str, instead: Optional[Part] = None) -> Part:
    return Part(_EN_RO, f"wmt_en_ro/{split}.source", f"wmt_en_ro/{split}.target", instead=instead)


WMT16_EN_RO = Dataset(
    name="wmt16.en-ro",
    source_lang="en",
    target_lang="ro",
    train=Subset((_en_ro("train"),)),
    valid=Subset(
        (
            _en_ro(
                "val",
                Part(_WMT16_DEV, "dev/newsdev2016-enro-src.en.sgm", "dev/newsdev2016-enro-ref.ro.sgm", "segments"),
            ),
        ),
        "newsdev2016",
    ),
    # The organisers' file first: scores then match sacreBLEU's own copy of the test set.
    tests=(
        Subset(
            (
                Part(
                    _WMT16_TEST,
                    "test/newstest2016-enro-src.en.sgm",
                    "test/newstest2016-enro-ref.ro.sgm",
                    "segments",
                    instead=_en_ro("test"),
                ),
            ),
            "newstest2016",
        ),
    ),
    normalise_punctuation=True,
    romanian="keep",
    clean=(1, 250, 1.5),
    vocab_size=40_000,
    counts={"valid": 1_999, "test": 1_999},
)

# ---------------------------------------------------------------- KFTT Ja-En

_KFTT = Archive(
    tuple(Copy(f"{scheme}://www.phontron.com/kftt/download/kftt-data-1.0.tar.gz") for scheme in ("https", "http"))
)


def _kftt(split: str, name: str) -> Subset:
    """Japanese as the corpus' authors segmented it (KyTea); English untokenised, so that it can be scored as text."""
    data = "kftt-data-1.0/data"
    return Subset((Part(_KFTT, f"{data}/tok/kyoto-{split}.ja", f"{data}/orig/kyoto-{split}.en"),), name)


KFTT_JA_EN = Dataset(
    name="kftt.ja-en",
    source_lang="ja",
    target_lang="en",
    train=_kftt("train", ""),
    valid=_kftt("dev", "dev"),
    tests=(_kftt("test", "test"),),
    pretokenised=("ja",),
    clean=(1, 40, 9.0),
    vocab_size=32_000,
    counts={"valid": 1_166, "test": 1_160},
)

# ---------------------------------------------------------------- Multi30k De-En

_MULTI30K_FILES = {
    "train.de": (637_044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
    "train.en": (568_929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
    "val.de": (24_681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
    "val.en": (21_650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
    "test_2016_flickr.de": (22_890, "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"),
    "test_2016_flickr.en": (21_077, "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"),
}


def _multi30k(split: str, name: str) -> Subset:
    def archive(language: str) -> Archive:
        size, digest = _MULTI30K_FILES[f"{split}.{language}"]
        return Archive(
            tuple(
                Copy(f"https://{host}/data/task1/raw/{split}.{language}.gz", bytes=size, sha256=digest)
                for host in (
                    "raw.githubusercontent.com/multi30k/dataset/master",
                    "github.com/multi30k/dataset/raw/master",
                )
            )
        )

    return Subset((Part(archive("de"), f"{split}.de", f"{split}.en", target_archive=archive("en")),), name)


MULTI30K_DE_EN = Dataset(
    name="multi30k.de-en",
    source_lang="de",
    target_lang="en",
    train=_multi30k("train", ""),
    valid=_multi30k("val", "val"),
    tests=(_multi30k("test_2016_flickr", "test_2016_flickr"),),
    lowercase=True,
    vocab_size=6_000,
    counts={"train": 29_000, "valid": 1_014, "test": 1_000},
)

# ---------------------------------------------------------------- openly licensed text, De-En

# As many pairs as IWSLT14, for where that cannot be had. It has no public link: docs/data.md says what is in it.
_OPEN = Archive(
    (
        Copy(
            "de-en.tar.xz",
            bytes=8_499_624,
            sha256="48a512f1e984d1a8ab0206bab844f19c9d2acf92366e38d033af855ebfaa4a31",
        ),
    )
)


def _open(split: str) -> Subset:
    return Subset((Part(_OPEN, f"de-en/{split}.de", f"de-en/{split}.en"),), split)


OPEN_DE_EN = Dataset(
    name="open.de-en",
    source_lang="de",
    target_lang="en",
    train=_open("train"),
    valid=_open("valid"),
    tests=(_open("test"),),
    clean=(1, 175, 0.0),
    vocab_size=8_000,
    counts={"valid": 2_845, "test": 5_584},
)

DATASETS: Dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        IWSLT14_DE_EN,
        IWSLT15_EN_VI,
        WMT14_EN_DE,
        IWSLT17_FR_EN,
        WMT16_EN_RO,
        IWSLT17_DE_EN,
        KFTT_JA_EN,
        MULTI30K_DE_EN,
        OPEN_DE_EN,
    )
}

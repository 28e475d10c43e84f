"""What the options mean, and that impossible ones end with one line that names them."""

import argparse
from argparse import Namespace

import pytest
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf

from explicit_sparse.config import (
    MAPPINGS,
    PATTERNS,
    SITES,
    OptionError,
    SiteConfig,
    SparseAttentionConfig,
)


def resolve(sites=SITES, **options):
    return SparseAttentionConfig(**options).resolve(sites)


def at_every_site(**expected):
    return {site: SiteConfig(**expected) for site in SITES}


# ---- defaults ----


def test_without_options_the_8_best_keys_are_kept_everywhere():
    assert resolve() == at_every_site(mapping="topk", topk=8)
    assert resolve(attention_mapping="topk") == resolve()
    assert SiteConfig(mapping="topk", topk=8) == SiteConfig(
        mapping="topk",
        topk=8,
        topk_ratio=None,
        topk_min=1,
        ties="keep",
        phase="both",
        order="before",
        renormalize=False,
        straight_through=False,
        pattern="full",
    )


@pytest.mark.parametrize("options", [{"topk": 0}, {"attention_mapping": "softmax"}, {"attention_mapping": "topk", "topk": 0}])
def test_dense(options):
    assert {config.mapping for config in resolve(**options).values()} == {"softmax"}


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_mapping_alone_is_enough(mapping):
    for config in resolve(attention_mapping=mapping).values():
        assert (config.mapping, config.pattern) == (mapping, "full")
        assert config.topk == (8 if mapping == "topk" else 0)
        assert (config.entmax_alpha, config.rela_norm, config.nm) == (None, "gated", (2, 4))


@pytest.mark.parametrize("pattern", [pattern for pattern in PATTERNS if pattern != "full"])
def test_a_pattern_alone_goes_with_softmax_and_spares_cross_attention(pattern):
    resolved = resolve(attention_pattern=pattern, attention_span=8)
    assert {config.mapping for config in resolved.values()} == {"softmax"}
    assert {site: config.pattern for site, config in resolved.items()} == {
        "encoder-self": pattern,
        "decoder-self": pattern,
        "cross": "full",
    }
    assert resolved["encoder-self"].span == 8


def test_a_pattern_restricts_what_topk_chooses_from():
    config = resolve(attention_pattern="window", attention_span=16, topk=4)["encoder-self"]
    assert (config.mapping, config.topk, config.pattern, config.span) == ("topk", 4, "window", 16)


@pytest.mark.parametrize("option", [{"encoder_topk": 0}, {"topk_ties": "break"}, {"attention_mapping": "topk"}])
def test_any_topk_option_beside_a_pattern_means_topk(option):
    assert resolve(attention_pattern="window", attention_span=16, **option)["cross"].topk == 8


# ---- top-k for each site ----


def test_k_of_each_site():
    resolved = resolve(encoder_topk=2, decoder_topk=0, cross_topk=5)
    assert [(c.mapping, c.topk) for c in resolved.values()] == [("topk", 2), ("softmax", 0), ("topk", 5)]
    resolved = resolve(topk=0, cross_topk=5)
    assert [c.mapping for c in resolved.values()] == ["softmax", "softmax", "topk"]
    resolved = resolve(topk_ratio=3, cross_topk=5)
    assert [(c.topk_ratio, c.topk) for c in resolved.values()] == [(3, 0), (3, 0), (None, 5)]


def test_sparse_sites():
    resolved = resolve(topk=4, sparse_sites="decoder-self, cross")
    assert [c.mapping for c in resolved.values()] == ["softmax", "topk", "topk"]


@pytest.mark.parametrize(
    "options, kept",
    [
        ({"topk": 5}, {1: 5, 10: 5}),
        ({"topk_ratio": 3.0}, {1: 1, 3: 1, 4: 2, 10: 4}),
        ({"topk_ratio": 2.5}, {5: 2, 6: 3}),
        ({"topk_ratio": 4, "topk_min": 3}, {1: 3, 12: 3, 13: 4}),
        ({"topk_ratio": 1}, {7: 7}),
    ],
)
def test_keys_kept(options, kept):
    config = resolve(**options)["cross"]
    assert {size: config.keys_kept(size) for size in kept} == kept


def test_language_model_has_decoder_self_attention_only():
    assert list(resolve(("decoder-self",))) == ["decoder-self"]
    pattern = resolve(("decoder-self",), attention_pattern="block", attention_span=4)
    assert pattern["decoder-self"].pattern == "block"


@pytest.mark.parametrize(
    "option", [{"sparse_sites": "cross"}, {"pattern_sites": "encoder-self", "attention_pattern": "block", "attention_span": 4}]
)
def test_language_model_refuses_sites_that_it_lacks(option):
    with pytest.raises(OptionError, match="choose from decoder-self"):
        resolve(("decoder-self",), **option)


# ---- errors ----

SPAN = {"attention_span": 8}
ERRORS = [
    # unknown values, which argparse would catch but Hydra and --model-overrides do not
    ({"attention_mapping": "topp"}, "--attention-mapping topp"),
    ({"attention_pattern": "spiral"}, "--attention-pattern spiral"),
    ({"topk_ties": "maybe"}, "--topk-ties maybe"),
    ({"topk_phase": "test"}, "--topk-phase test"),
    ({"topk_order": "during"}, "--topk-order during"),
    ({"attention_kernel": "fast"}, "--attention-kernel fast"),
    ({"attention_mapping": "rela", "rela_norm": "layer"}, "--rela-norm layer"),
    ({"sparse_sites": "encoder"}, "--sparse-sites encoder"),
    ({"sparse_sites": ""}, "--sparse-sites"),
    ({"sparse_sites": "cross,"}, "--sparse-sites cross,"),
    ({"sparse_sites": ["cross"]}, "--sparse-sites"),
    ({"attention_pattern": "block", **SPAN, "pattern_sites": "decoder"}, "--pattern-sites decoder"),
    # numbers out of range, or no numbers
    ({"topk": -3}, "--topk -3"),
    ({"topk": 2.5}, "--topk 2.5"),
    ({"topk": "8"}, "--topk '8'"),
    ({"topk": True}, "--topk True"),
    ({"encoder_topk": -1}, "--encoder-topk -1"),
    ({"decoder_topk": -1}, "--decoder-topk -1"),
    ({"cross_topk": -1}, "--cross-topk -1"),
    ({"topk_ratio": 0}, "--topk-ratio 0"),
    ({"topk_ratio": 0.5}, "--topk-ratio 0.5"),
    ({"topk_ratio": -4}, "--topk-ratio -4"),
    ({"topk_ratio": float("nan")}, "--topk-ratio nan"),
    ({"topk_ratio": "4"}, "--topk-ratio '4'"),
    ({"topk_ratio": 4, "topk_min": 0}, "--topk-min 0"),
    ({"topk_ratio": 4, "topk_min": 1.5}, "--topk-min 1.5"),
    ({"attention_mapping": "entmax", "entmax_alpha": 1.0}, "--entmax-alpha 1.0"),
    ({"attention_mapping": "entmax", "entmax_alpha": 2.5}, "--entmax-alpha 2.5"),
    ({"attention_mapping": "entmax", "entmax_alpha": "1.5"}, "--entmax-alpha '1.5'"),
    ({"attention_mapping": "nm", "nm": "4:2"}, "--nm 4:2"),
    ({"attention_mapping": "nm", "nm": "4:4"}, "--nm 4:4"),
    ({"attention_mapping": "nm", "nm": "0:4"}, "--nm 0:4"),
    ({"attention_mapping": "nm", "nm": "2"}, "--nm 2"),
    ({"attention_mapping": "nm", "nm": "2:4:8"}, "--nm 2:4:8"),
    ({"attention_mapping": "nm", "nm": "-2:4"}, "--nm -2:4"),
    ({"attention_mapping": "nm", "nm": "two:4"}, "--nm two:4"),
    ({"attention_pattern": "window"}, "--attention-span"),
    ({"attention_pattern": "window", "attention_span": 0}, "--attention-span"),
    ({"attention_pattern": "window", "attention_span": -2}, "--attention-span"),
    ({"attention_pattern": "window", "attention_span": "8"}, "--attention-span '8'"),
    ({"attention_pattern": "bigbird", "attention_span": 6}, "--attention-span 6"),
    ({"attention_pattern": "out-of-window", "attention_span": 5}, "--attention-span 5"),
    ({"attention_pattern": "random", **SPAN, "pattern_seed": 1.5}, "--pattern-seed 1.5"),
    # options that exclude each other, or miss the one that they belong to
    ({"topk": 8, "topk_ratio": 4}, "--topk 8", "--topk-ratio 4"),
    ({"topk": 0, "topk_ratio": 4}, "--topk 0", "--topk-ratio 4"),
    ({"topk_min": 3}, "--topk-min 3", "--topk-ratio"),
    ({"topk": 8, "topk_min": 3}, "--topk-min 3", "--topk-ratio"),
    ({"topk_renormalize": True}, "--topk-renormalize", "--topk-order after"),
    ({"topk_straight_through": True, "topk_order": "after"}, "--topk-straight-through", "--topk-order"),
    ({"topk_straight_through": True, "topk_phase": "generate"}, "--topk-straight-through", "--topk-phase"),
    ({"sparse_sites": "cross", "encoder_topk": 4}, "--encoder-topk 4", "--sparse-sites"),
    ({"attention_span": 8}, "--attention-span 8", "--attention-pattern"),
    ({"pattern_sites": "cross"}, "--pattern-sites cross", "--attention-pattern"),
    ({"entmax_alpha": 1.5}, "--entmax-alpha 1.5", "--attention-mapping entmax"),
    ({"attention_mapping": "entmax15", "entmax_alpha": 1.5}, "--entmax-alpha 1.5", "entmax15"),
    ({"rela_norm": "plain"}, "--rela-norm plain", "--attention-mapping rela"),
    ({"nm": "2:4"}, "--nm 2:4", "--attention-mapping nm"),
    ({"attention_mapping": "nm", "topk": 4}, "--topk 4", "--attention-mapping nm"),
] + [
    ({"attention_mapping": mapping, option: value}, "--" + option.replace("_", "-"), "--attention-mapping " + mapping)
    for mapping, option, value in [
        ("sparsemax", "topk", 8),
        ("sparsemax", "topk", 0),
        ("entmax15", "topk_ratio", 4),
        ("entmax", "encoder_topk", 4),
        ("entmax", "encoder_topk", 0),
        ("rela", "decoder_topk", 4),
        ("softmax", "cross_topk", 4),
        ("softmax", "topk", 4),
        ("softmax", "topk_ties", "break"),
        ("sparsemax", "topk_phase", "train"),
        ("sparsemax", "topk_order", "after"),
        ("sparsemax", "topk_straight_through", True),
    ]
] + [
    # cross-attention compares positions of two sentences: random keys only
    (
        {"attention_pattern": pattern, **SPAN, "pattern_sites": "decoder-self,cross"},
        "--pattern-sites decoder-self,cross",
        "--attention-pattern",
        pattern,
    )
    for pattern in PATTERNS
    if pattern not in ("full", "random")
] + [
    # out-of-window selects by itself
    ({"attention_pattern": "out-of-window", **SPAN, "attention_mapping": mapping}, "out-of-window", mapping)
    for mapping in MAPPINGS
    if mapping != "softmax"
] + [
    ({"attention_pattern": "out-of-window", **SPAN, "topk": 4}, "out-of-window", "--topk 4"),
    ({"attention_pattern": "out-of-window", **SPAN, "cross_topk": 4}, "out-of-window", "--cross-topk 4"),
]


@pytest.mark.parametrize("case", ERRORS, ids=[" ".join(map("{0[0]}={0[1]}".format, case[0].items())) for case in ERRORS])
def test_error_is_one_line_that_names_the_options(case):
    options, *named = case
    with pytest.raises(OptionError) as error:
        resolve(**options)
    message = str(error.value)
    assert "\n" not in message and len(message) < 300
    for name in named:
        assert name in message


def test_option_error_is_a_value_error_and_ends_a_command_line():
    with pytest.raises(ValueError):
        resolve(topk=-3)
    with pytest.raises(SystemExit) as exit_:
        resolve(topk=-3)
    assert exit_.value.code == str(exit_.value)  # Python prints it on stderr and exits with status 1


# ---- where options come from ----


def test_from_any_object_with_attributes():
    read = SparseAttentionConfig.from_model
    assert read(object()) == read(Namespace(encoder_layers=6, topk=None)) == SparseAttentionConfig()
    assert read(Namespace(topk=4, topk_ties="break")) == SparseAttentionConfig(topk=4, topk_ties="break")
    assert read(Namespace(topk=0)).topk == 0
    assert read(OmegaConf.create({"topk": 4, "sparse_sites": "cross"})) == SparseAttentionConfig(
        topk=4, sparse_sites="cross"
    )
    nested = TransformerConfig.from_namespace(Namespace(topk=4, encoder_layers=1))
    assert read(nested) == SparseAttentionConfig(topk=4)


def test_hydra_gives_enums_and_they_resolve_like_words():
    structured = OmegaConf.merge(
        OmegaConf.structured(SparseAttentionConfig),
        {"attention_mapping": "topk", "attention_pattern": "window", "attention_span": 4, "topk_ties": "break"},
    )
    config = SparseAttentionConfig.from_model(structured)
    words = dict(attention_mapping="topk", attention_pattern="window", attention_span=4, topk_ties="break")
    assert config.resolve() == resolve(**words)
    dashed = OmegaConf.merge(
        OmegaConf.structured(SparseAttentionConfig), {"attention_pattern": "out-of-window", "attention_span": 4}
    )
    assert SparseAttentionConfig.from_model(dashed).resolve()["decoder-self"].pattern == "out-of-window"


def parse(*flags):
    parser = argparse.ArgumentParser()
    gen_parser_from_dataclass(parser, SparseAttentionConfig())
    return SparseAttentionConfig.from_model(parser.parse_args(flags))


def test_command_line():
    assert parse() == SparseAttentionConfig()
    flags = (
        "--attention-mapping topk --sparse-sites cross --topk-ratio 4 --topk-min 2 --topk-ties break "
        "--topk-phase train --topk-order after --topk-renormalize --attention-pattern out-of-window "
        "--attention-span 8 --pattern-sites cross --pattern-seed 3 --encoder-topk 1 --decoder-topk 2 --cross-topk 3 "
        "--entmax-alpha 1.5 --rela-norm plain --nm 1:4 --topk-straight-through --topk 9 --attention-kernel short"
    )
    assert parse(*flags.split()) == SparseAttentionConfig(
        attention_mapping="topk",
        sparse_sites="cross",
        topk=9,
        topk_ratio=4.0,
        topk_min=2,
        encoder_topk=1,
        decoder_topk=2,
        cross_topk=3,
        topk_ties="break",
        topk_phase="train",
        topk_order="after",
        topk_renormalize=True,
        topk_straight_through=True,
        entmax_alpha=1.5,
        rela_norm="plain",
        nm="1:4",
        attention_pattern="out-of-window",
        attention_span=8,
        pattern_sites="cross",
        pattern_seed=3,
        attention_kernel="short",
    )


@pytest.mark.parametrize("flags", ["--attention-mapping topp", "--topk many", "--attention-pattern spiral"])
def test_command_line_refuses_unknown_values_with_the_flag(flags, capsys):
    with pytest.raises(SystemExit):
        parse(*flags.split())
    assert flags.split()[0] in capsys.readouterr().err

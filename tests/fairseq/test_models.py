"""The models beside fairseq's stock ones: dimensions, initialisation, checkpoints, beam search."""

import functools
from argparse import Namespace
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from fairseq import checkpoint_utils, models, options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.modules import FairseqDropout, MultiheadAttention
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.sequence_generator import SequenceGenerator
from omegaconf import OmegaConf

import explicit_sparse  # noqa: F401  registers the models
from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.config import MAPPINGS, OPTIONS, SITES, OptionError
from explicit_sparse.kernels import long

OURS = "explicit_sparse_transformer"
TINY = (
    "--encoder-layers 2 --decoder-layers 2 --encoder-embed-dim 16 --encoder-ffn-embed-dim 32 "
    "--encoder-attention-heads 2 --decoder-attention-heads 2 --dropout 0.1"
)
TINY_LM = "--decoder-layers 2 --decoder-embed-dim 16 --decoder-ffn-embed-dim 32 --decoder-attention-heads 2"


@functools.lru_cache(maxsize=None)
def dictionary():
    words = Dictionary()
    for i in range(20):
        words.add_symbol("w{}".format(i))
    return words


def task():
    """As much of a task as building a model and loading a checkpoint take."""
    words = dictionary()
    stub = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    stub.build_model = lambda cfg, from_checkpoint=False: models.build_model(cfg, stub, from_checkpoint)
    return stub


@functools.lru_cache(maxsize=None)
def parse(arch, flags=""):
    """What fairseq-train would make of these flags."""
    kind = "language_modeling" if "_lm" in arch else "translation"
    parser = options.get_training_parser(kind)
    return options.parse_args_and_arch(parser, ["data", "--arch", arch] + flags.split())


def build(arch, flags="", seed=1, **changed):
    torch.manual_seed(seed)
    args = Namespace(**dict(vars(parse(arch, flags)), **changed))
    if "_lm" in arch and not hasattr(args, "max_target_positions"):
        args.max_target_positions = None
    return models.build_model(args, task())


def tiny(flags="", arch=OURS, seed=1):
    """A model whose attention has clear preferences, so that k makes a difference."""
    return sharpened(build(arch, TINY + " " + flags, seed))


def sharpened(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("q_proj.weight"):
                parameter.mul_(4)
    return model.eval()


def attentions(model):
    return [module for module in model.modules() if isinstance(module, SparseMultiheadAttention)]


# ---- architectures ----

needs_meta_device = pytest.mark.skipif(
    not hasattr(torch.device, "__enter__"), reason="building on the meta device needs torch >= 2"
)

PAIRS = {
    OURS + suffix: "transformer" + suffix for suffix in ("", "_iwslt_de_en", "_wmt_en_de", "_wmt_en_de_big", "_lm")
}
SIZES = {  # layers, width, FFN, heads; what the names promise
    OURS: (6, 512, 2048, 8),
    OURS + "_iwslt_de_en": (6, 512, 1024, 4),
    OURS + "_wmt_en_de": (6, 512, 2048, 8),
    OURS + "_wmt_en_de_big": (6, 1024, 4096, 16),
    OURS + "_lm": (6, 512, 2048, 8),
    OURS + "_mini": (2, 512, 2048, 8),
    OURS + "_tiny": (2, 128, 512, 4),
}


def shapes(model):
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


@functools.lru_cache(maxsize=None)
def shapes_of(arch):
    with torch.device("meta"):  # dimensions without memory or time
        return shapes(build(arch))


@needs_meta_device
@pytest.mark.parametrize("ours, stock", PAIRS.items())
def test_architecture_has_the_parameters_of_the_stock_one(ours, stock):
    assert shapes_of(ours) == shapes_of(stock)
    assert {k: v for k, v in vars(parse(ours)).items() if k in vars(parse(stock)) and k != "arch"} == {
        k: v for k, v in vars(parse(stock)).items() if k != "arch"
    }


@needs_meta_device
@pytest.mark.parametrize("arch", SIZES)
def test_architecture_has_the_size_that_it_promises(arch):
    layers, width, ffn, heads = SIZES[arch]
    names = shapes_of(arch)
    for side in ("decoder",) if arch.endswith("_lm") else ("encoder", "decoder"):
        numbers = {int(name.split(".")[2]) for name in names if name.startswith(side + ".layers.")}
        assert numbers == set(range(layers))
        assert names[side + ".layers.0.fc1.weight"] == (ffn, width)
    with torch.device("meta"):
        assert {module.num_heads for module in attentions(build(arch))} == {heads}


@pytest.mark.parametrize("arch, flags", [(OURS, TINY), (OURS + "_lm", TINY_LM)])
@pytest.mark.parametrize("mapping", ["--topk 0", "--topk 8", "--attention-mapping sparsemax"])
def test_initialisation_draws_the_random_numbers_of_stock(arch, flags, mapping):
    stock, ours = build(PAIRS[arch], flags), build(arch, flags + " " + mapping)
    after = torch.rand(1)
    assert list(stock.state_dict()) == list(ours.state_dict())
    for name, tensor in stock.state_dict().items():
        assert torch.equal(tensor, ours.state_dict()[name]), name
    build(PAIRS[arch], flags)
    assert torch.equal(after, torch.rand(1))


def test_every_attention_is_sparse_and_knows_its_site_and_layer():
    model = tiny("--topk 3 --encoder-layers 3")
    found = [(module.site, module.layer) for module in attentions(model)]
    assert found == [("encoder-self", 0), ("encoder-self", 1), ("encoder-self", 2)] + [
        ("decoder-self", 0),
        ("cross", 0),
        ("decoder-self", 1),
        ("cross", 1),
    ]
    lm = build(OURS + "_lm", TINY_LM)
    assert [(module.site, module.layer) for module in attentions(lm)] == [("decoder-self", 0), ("decoder-self", 1)]


def test_layer_drop_moves_neither_layer_numbers_nor_random_numbers():
    """fairseq's list of layers leaves some out each time that it is iterated over in training."""
    flags = TINY + " --encoder-layers 6 --decoder-layers 6 --encoder-layerdrop 0.5 --decoder-layerdrop 0.5"
    stock, ours = build("transformer", flags), build(OURS, flags)
    after = torch.rand(1)
    for site in SITES:
        assert [module.layer for module in attentions(ours) if module.site == site] == list(range(6))
    for name, tensor in stock.state_dict().items():
        assert torch.equal(tensor, ours.state_dict()[name]), name
    build("transformer", flags)
    assert torch.equal(after, torch.rand(1))


@pytest.mark.parametrize(
    "flags, named",
    [
        ("--topk -3", "--topk -3"),
        ("--topk 8 --topk-ratio 4", "--topk-ratio 4"),
        ("--sparse-sites encoder", "--sparse-sites encoder"),
        ("--topk-min 3", "--topk-min 3"),
        ("--attention-mapping sparsemax --topk 8", "--attention-mapping sparsemax"),
    ],
)
def test_impossible_options_stop_before_anything_is_built(flags, named):
    with pytest.raises(OptionError, match=named):
        build(OURS, TINY + " " + flags)


@pytest.mark.parametrize("arch, flags", [(OURS, TINY), (OURS + "_lm", TINY_LM)], ids=["translation", "language model"])
@pytest.mark.parametrize("option", ["adaptive_softmax_cutoff", "adaptive_input_cutoff", "character_filters"])
def test_options_that_fairseq_evaluates_run_no_code(arch, flags, option, tmp_path):
    """A checkpoint's options are data, and fairseq hands these to eval()."""
    marker = tmp_path / "ran"
    with pytest.raises(OptionError, match=option):
        build(arch, flags, **{option: f"[__import__('pathlib').Path({str(marker)!r}).touch(), 1]"})
    assert not marker.exists()


# ---- batches ----


def batch(seed=0, left_pad=True):
    """Four sentences of words, padded to 9; and what the decoder is fed."""
    generator = torch.Generator().manual_seed(seed)
    words = dictionary()
    lengths = [9, 4, 6, 1]
    tokens = torch.full((4, 9), words.pad())
    for row, length in zip(tokens, lengths):
        place = slice(9 - length, 9) if left_pad else slice(0, length)
        row[place] = torch.randint(words.nspecial, len(words), (length,), generator=generator)
        row[place][-1] = words.eos()
    previous = torch.randint(words.nspecial, len(words), (4, 7), generator=generator)
    previous[:, 0] = words.eos()
    return {"src_tokens": tokens, "src_lengths": torch.tensor(lengths), "prev_output_tokens": previous}


def logits(model, **kwargs):
    with torch.no_grad():
        return model(**batch(**kwargs))[0]


@pytest.mark.parametrize("left_pad", [True, False])
def test_dense_weights_load_into_ours_and_back_with_the_same_logits(left_pad):
    dense = tiny(arch="transformer", seed=1)
    expected = logits(dense, left_pad=left_pad)
    on_pythons_path = tiny(arch="transformer", seed=1)
    for module in on_pythons_path.modules():
        if isinstance(module, MultiheadAttention):
            module.skip_embed_dim_check = True
    for flags in ("--topk 0", "--topk 100", "--attention-mapping softmax"):
        ours = tiny(flags, seed=2)
        ours.load_state_dict(dense.state_dict())
        actual = logits(ours, left_pad=left_pad)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)
        assert torch.equal(actual, logits(on_pythons_path, left_pad=left_pad))
    back = tiny(arch="transformer", seed=3)
    back.load_state_dict(ours.state_dict())
    assert torch.equal(logits(back, left_pad=left_pad), expected)
    ours = tiny("--topk 2", seed=2)
    ours.load_state_dict(dense.state_dict())
    assert (logits(ours, left_pad=left_pad) - expected).abs().max() > 1e-2


def test_language_model_with_k_of_everything_is_stock():
    stock, ours = build("transformer_lm", TINY_LM).eval(), build(OURS + "_lm", TINY_LM + " --topk 50").eval()
    tokens = batch()["prev_output_tokens"]
    with torch.no_grad():
        torch.testing.assert_close(ours(tokens)[0], stock(tokens)[0], rtol=0, atol=1e-5)
        sparse = build(OURS + "_lm", TINY_LM + " --topk 2").eval()
        assert (sparse(tokens)[0] - stock(tokens)[0]).abs().max() > 1e-3


def test_alignment_asks_for_the_weights_of_one_layer():
    model = tiny("--topk 2")
    with torch.no_grad():
        _, extra = model(**batch(), alignment_layer=0, alignment_heads=1)
    (weights,) = extra["attn"]
    assert weights.shape == (4, 7, 9)
    assert ((weights > 0).sum(-1) == torch.tensor([2, 2, 2, 1]).unsqueeze(-1)).all()


# ---- fairseq 0.12.2's fused encoder layer ----


def test_encoder_attention_is_called_in_evaluation(monkeypatch):
    """A stand-in for that release's layer: dense, without calling the attention, where the flag is on."""
    init, forward = TransformerEncoderLayerBase.__init__, TransformerEncoderLayerBase.forward

    def init_with_flag(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self.can_use_fastpath = True

    def fused_forward(self, x, *args, **kwargs):
        if self.can_use_fastpath and not self.training:
            return x
        return forward(self, x, *args, **kwargs)

    monkeypatch.setattr(TransformerEncoderLayerBase, "__init__", init_with_flag)
    monkeypatch.setattr(TransformerEncoderLayerBase, "forward", fused_forward)

    def calls(model):
        model.load_state_dict(tiny(seed=4).state_dict())
        model.eval()
        made = []
        for layer in model.encoder.layers:
            layer.self_attn.register_forward_hook(lambda *_: made.append(1))
        for left_pad in (True, False):
            logits(model, left_pad=left_pad)
        without_padding = {name: tensor[:1] for name, tensor in batch().items()}
        with torch.no_grad():
            model(**without_padding)
        return len(made)

    assert calls(tiny(arch="transformer")) == 0  # the trap works
    assert calls(tiny("--topk 2")) == 3 * 2


# ---- beam search ----


def source():
    return {"net_input": {name: batch()[name] for name in ("src_tokens", "src_lengths")}}


def hypotheses(ensemble, cached=True, beam=3):
    generator = SequenceGenerator(ensemble, dictionary(), beam_size=beam, max_len_b=12, min_len=3)
    generator.model.has_incremental = cached
    return generator.generate(ensemble, source())


def translate(*ensemble, **options):
    return [
        [(hypo["tokens"].tolist(), hypo["score"].item()) for hypo in hypos] for hypos in hypotheses(ensemble, **options)
    ]


def assert_same_translations(actual, expected):
    for ours, theirs in zip(actual, expected):
        assert [tokens for tokens, _ in ours] == [tokens for tokens, _ in theirs]
        assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], abs=1e-4)


@functools.lru_cache(maxsize=None)
def stock_translations():
    return translate(tiny(arch="transformer"))


@pytest.mark.parametrize("flags", ["--topk 0", "--topk 100", "--topk-ratio 1", "--topk 100 --topk-ties break"])
def test_beam_search_with_k_of_everything_is_stock(flags):
    assert_same_translations(translate(tiny(flags)), stock_translations())


def test_beam_search_depends_on_k():
    """Or the tests around this one would compare nothing."""
    translations = [translate(tiny(flags)) for flags in ("--topk 1", "--topk 2", "--topk 3")] + [stock_translations()]
    assert len({str([hypos[0][0] for hypos in translation]) for translation in translations}) == 4
    best = [hypos[0][0] for hypos in stock_translations()]
    assert len({str(tokens) for tokens in best}) == 4 and len({len(tokens) for tokens in best}) > 1


BEAM_SEARCHES = [
    "--topk 2",
    "--topk 2 --topk-ties break --topk-order after",
    "--cross-topk 1 --topk 3",
    "--attention-mapping sparsemax",
    "--attention-mapping entmax",
    "--attention-mapping rela",
    "--attention-mapping nm --nm 1:3",
    "--attention-pattern window --attention-span 3 --topk 2",
    "--attention-pattern dilated --attention-span 2",
    "--attention-pattern bigbird --attention-span 4",
    "--attention-pattern out-of-window --attention-span 4",
    "--attention-pattern random --attention-span 3 --pattern-sites encoder-self,decoder-self,cross",
    "--attention-pattern random --attention-span 5 --pattern-sites cross --attention-mapping nm --nm 1:2",
]


@pytest.mark.parametrize("flags", BEAM_SEARCHES)
def test_beam_search_with_the_cache_equals_decoding_again_from_the_first_token(flags):
    model = tiny(flags)
    assert_same_translations(translate(model, cached=True), translate(model, cached=False))


def test_ensemble_and_half_precision_are_stock():
    pairs = [(tiny("--topk 100", seed=seed), tiny(arch="transformer", seed=seed)) for seed in (1, 2)]
    ours, theirs = (translate(*ensemble) for ensemble in zip(*pairs))
    assert_same_translations(ours, theirs)
    assert ours != stock_translations()
    ours, theirs = (translate(model.bfloat16()) for model in pairs[0])
    for our_hypos, their_hypos in zip(ours, theirs):
        assert our_hypos[0][0] == their_hypos[0][0]
        assert our_hypos[0][1] == pytest.approx(their_hypos[0][1], abs=0.05)


@pytest.mark.parametrize("asked", [False, True])
def test_attention_of_the_hypotheses_is_that_of_stock(asked):
    """What --print-alignment and --replace-unk read; asked or not, fairseq keeps the last layer's."""
    results = []
    for model in (tiny("--topk 100"), tiny(arch="transformer")):
        model.make_generation_fast_(need_attn=asked)
        results.append([hypo["attention"] for hypos in hypotheses([model]) for hypo in hypos])
    for ours, theirs in zip(*results):
        assert ours.shape[0] == 9 and ours.abs().sum() > 0
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def test_beams_of_a_sentence_share_its_keys(monkeypatch):
    seen, step = set(), SparseMultiheadAttention.step

    def spy(self, query, *args):
        scores, v = step(self, query, *args)
        if self.site == "cross":
            seen.add((query.size(1) * self.num_heads, v.size(0)))
        return scores, v

    monkeypatch.setattr(SparseMultiheadAttention, "step", spy)
    translate(tiny("--topk 2"), beam=5)
    assert (4 * 5 * 2, 4 * 2) in seen and len(seen) > 1  # some sentences are finished before others
    assert all(queries == 5 * keys for queries, keys in seen)


@torch.no_grad()
def test_encoder_output_is_copied_only_when_a_sentence_leaves():
    model = tiny()
    output = model.encoder(batch()["src_tokens"], batch()["src_lengths"])
    beams = torch.arange(4).repeat_interleave(3)
    for order in (torch.tensor([2, 0, 0, 4, 5, 3, 6, 6, 6, 9, 11, 10]), torch.tensor([1, 1, 0, 11, 10, 9])):
        repeated = model.encoder.reorder_encoder_out(output, beams)
        moved = model.encoder.reorder_encoder_out(repeated, order)
        assert (moved is repeated) == (order.numel() == 12)
        expected = tiny(arch="transformer").encoder.reorder_encoder_out(dict(repeated), order)
        for name in ("encoder_out", "encoder_padding_mask"):
            assert torch.equal(moved[name][0], expected[name][0])


@torch.no_grad()
@pytest.mark.parametrize("rows", [[0, 0, 1, 1, 3, 3], [0, 0, 0, 1, 2, 2], [1, 0, 1, 0], [2]], ids=str)
def test_decoder_step_whatever_the_rows_of_the_encoder_output(rows):
    """Beams of equal number share their keys, others do not; the result is the full pass's."""
    model, rows = tiny("--topk 2"), torch.tensor(rows)
    output = model.encoder(batch()["src_tokens"], batch()["src_lengths"])
    output = model.encoder.reorder_encoder_out(output, rows)
    previous, state = batch()["prev_output_tokens"][rows], {}
    for step in range(1, 4):
        logits, _ = model.decoder(previous[:, :step], encoder_out=output, incremental_state=state)
    full, _ = model.decoder(previous[:, :3], encoder_out=output)
    torch.testing.assert_close(logits[:, -1], full[:, -1], rtol=0, atol=1e-5)


def test_training_after_a_generator_was_made():
    """As with --eval-bleu, where fairseq tells the model the beam size before the first update."""
    model, expected = tiny("--topk 2"), logits(tiny("--topk 2"))
    translate(model, beam=4)
    assert torch.equal(logits(model), expected)


# ---- the long path ----


@pytest.mark.parametrize("flags", ["--topk 2", "--topk 3 --cross-topk 1 --topk-ties break", "--topk 2 --checkpoint-activations"])
def test_long_path_trains_as_the_ordinary_one(flags):
    gradients = []
    for kernel in ("short", "long"):
        model = tiny(flags + " --attention-kernel " + kernel).train()
        torch.manual_seed(7)
        with mock.patch.object(long, "best_scores", wraps=long.best_scores) as best_scores:
            model(**batch())[0].pow(2).mean().backward()
        calls = 6 * (2 if "checkpoint" in flags else 1)  # once more in the backward pass
        assert best_scores.call_count == (calls if kernel == "long" else 0)
        gradients.append([parameter.grad for parameter in model.parameters()])
    for ours, expected in zip(*gradients):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)


# ---- checkpoints, through fairseq's own save and load ----


def save(path, flags="", arch=OURS, kind="fairseq-train", unknown=()):
    """Save a model of these flags as a trainer would; return it.

    Args:
        kind: fairseq-train keeps the model's options in a Namespace inside its configuration,
            fairseq-hydra-train in a DictConfig; releases before 0.10 had one Namespace for everything.
        unknown: names of options that the release which wrote the checkpoint did not have.
    """
    torch.manual_seed(1)
    args = Namespace(**{k: v for k, v in vars(parse(arch, TINY + " " + flags)).items() if k not in unknown})
    if kind == "fairseq 0.9":
        model = models.build_model(args, task())
        saved = {"args": args}
    else:
        cfg = convert_namespace_to_omegaconf(args)
        if kind == "fairseq-hydra-train":
            cfg.model = OmegaConf.create(dict(vars(args), _name=arch))
        model = models.build_model(cfg.model, task())  # the trainer saves what building it left in cfg
        cfg = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
        if kind == "fairseq-hydra-train":
            for name in unknown:
                cfg["model"].pop(name)
        saved = {"args": None, "cfg": cfg}
    history = [{"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 0}]
    state = {"model": sharpened(model).state_dict(), "optimizer_history": history, "extra_state": {}, **saved}
    checkpoint_utils.torch_persistent_save(state, str(path))
    return model


def load(path, overrides=None):
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], overrides, task=task())
    return model.eval()


def configs(model):
    return [module.config for module in attentions(model)]


KINDS = ("fairseq-train", "fairseq-hydra-train", "fairseq 0.9")
MAPPING_FLAGS = {"topk": " --topk 2", "nm": " --nm 1:3"}


@pytest.mark.parametrize("kind, mapping", [(KINDS[0], m) for m in MAPPINGS] + [(kind, "topk") for kind in KINDS[1:]])
def test_checkpoint_round_trip(kind, mapping, tmp_path):
    flags = "--attention-mapping {}{}".format(mapping, MAPPING_FLAGS.get(mapping, ""))
    model = save(tmp_path / "model.pt", flags, kind=kind)
    loaded = load(tmp_path / "model.pt")
    assert configs(loaded) == configs(model) and configs(loaded)[0].mapping == mapping
    assert torch.equal(logits(loaded), logits(model))


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize(
    "overrides, flags",
    [
        ({"topk": 2}, "--topk 2"),
        ({"topk": 0}, "--topk 0"),
        ({"topk": None, "topk_ratio": 3.0}, "--topk-ratio 3"),
        ({"attention_kernel": "long"}, "--topk 4 --attention-kernel long"),
        ({"encoder_topk": 2}, "--topk 4 --encoder-topk 2"),
        ({"topk": None, "attention_mapping": "sparsemax"}, "--attention-mapping sparsemax"),
        (
            {"attention_pattern": "window", "attention_span": 3, "pattern_sites": "encoder-self"},
            "--topk 4 --attention-pattern window --attention-span 3 --pattern-sites encoder-self",
        ),
    ],
    ids=str,
)
def test_model_overrides(overrides, flags, kind, tmp_path):
    model = save(tmp_path / "model.pt", "--topk 4", kind=kind)
    overridden, expected = load(tmp_path / "model.pt", overrides), tiny(flags)
    assert configs(overridden) == configs(expected) != configs(model)
    expected.load_state_dict(model.state_dict())
    assert torch.equal(logits(overridden), logits(expected))


@pytest.mark.parametrize("kind", KINDS)
def test_model_overrides_refuse_the_impossible(kind, tmp_path):
    save(tmp_path / "model.pt", "--topk 4", kind=kind)
    with pytest.raises(OptionError, match="--topk 4 with --attention-mapping sparsemax.*None"):
        load(tmp_path / "model.pt", {"attention_mapping": "sparsemax"})


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_older_than_an_option_load(kind, tmp_path):
    """Here: older than all of them but --topk."""
    model = save(tmp_path / "model.pt", "--topk 2", kind=kind, unknown=set(OPTIONS) - {"topk"})
    loaded = load(tmp_path / "model.pt")
    assert configs(loaded) == configs(model)
    assert torch.equal(logits(loaded), logits(model))


def test_dense_checkpoint_opened_as_ours(tmp_path):
    dense = save(tmp_path / "model.pt", arch="transformer", kind="fairseq 0.9")
    loaded = load(tmp_path / "model.pt", {"arch": OURS, "topk": 0})
    assert len(attentions(loaded)) == 6
    torch.testing.assert_close(logits(loaded), logits(dense), rtol=0, atol=1e-5)
    sparse = load(tmp_path / "model.pt", {"arch": OURS, "topk": 3})
    assert {module.config.topk for module in attentions(sparse)} == {3}


# ---- dropout kept at translation ----


@pytest.mark.parametrize("arch, flags", [(OURS, TINY), (OURS + "_lm", TINY_LM)])
@pytest.mark.parametrize(
    "names",
    [
        None,
        [],
        ["TransformerEncoder"],
        ["TransformerDecoder"],
        "TransformerDecoder",
        ["MultiheadAttention"],
        ["TransformerEncoderLayerBase"],
        ["TransformerDecoderLayerBase", "TransformerEncoder", "MultiheadAttention"],
        ["NoSuchModule"],
    ],
)
def test_retained_dropout_by_the_names_of_stock(arch, flags, names):
    def active(model):
        generation = {"retain_dropout": True, "retain_dropout_modules": names}
        model.prepare_for_inference_(OmegaConf.create({"generation": generation}))
        return {
            name: module.apply_during_inference
            for name, module in model.named_modules()
            if isinstance(module, FairseqDropout)
        }

    stock = active(build(PAIRS[arch], flags))
    assert active(build(arch, flags)) == stock
    nothing = names in ([], ["NoSuchModule"]) or ("_lm" in arch and "Encoder" in str(names) and len(names) == 1)
    assert any(stock.values()) != nothing


def test_retained_dropout_by_our_own_names():
    model = build(OURS, TINY)
    model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=["SparseTransformerDecoder"])
    kept = [module for module in model.modules() if getattr(module, "apply_during_inference", False)]
    assert kept == [model.decoder.dropout_module]

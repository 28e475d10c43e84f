"""Decoding step by step for callers with loops of their own: whatever they do to the rows, a step equals a full pass."""

import copy
import functools
import random

import pytest
import torch
from test_models import dictionary, tiny

FLAGS = {
    "dense": "--topk 0",
    "top-k": "--topk 2",
    "pattern": "--attention-pattern random --attention-span 2 --pattern-sites decoder-self,cross",
    "entmax": "--attention-mapping entmax",
    "stock": "",
}
EOS = 2


@functools.lru_cache(maxsize=None)
def model(name):
    return tiny(FLAGS[name], arch="transformer") if name == "stock" else tiny(FLAGS[name])


def encoded(model, lengths, draw):
    """The encoder's output for sentences of these lengths, padded on the left."""
    tokens = torch.full((len(lengths), max(lengths)), dictionary().pad())
    for row, length in zip(tokens, lengths):
        row[-length:] = torch.tensor([draw.randrange(4, len(dictionary())) for _ in range(length)])
    return model.encoder(tokens, src_lengths=torch.tensor(lengths))


def selected(encoder_out, rows):
    """A caller's own copy of rows of the encoder's output."""
    out = dict(encoder_out)
    out["encoder_out"] = [x.index_select(1, rows) for x in encoder_out["encoder_out"]]
    for name in ("encoder_padding_mask", "encoder_embedding", "src_tokens", "src_lengths"):
        out[name] = [x.index_select(0, rows) for x in encoder_out[name]]
    return out


class Decoding:
    """One decoding that a caller drives; each step is compared with a full pass over the same rows."""

    def __init__(self, model, encoder_out):
        self.model, self.encoder_out, self.state = model, encoder_out, {}
        self.tokens = torch.full((encoder_out["encoder_out"][0].size(1), 1), EOS)

    def step(self, draw):
        step = self.model.decoder(self.tokens, encoder_out=self.encoder_out, incremental_state=self.state)[0]
        full = self.model.decoder(self.tokens, encoder_out=self.encoder_out)[0]
        torch.testing.assert_close(step[:, -1], full[:, -1], atol=2e-5, rtol=1e-4)
        chosen = [[draw.randrange(4, len(dictionary()))] for _ in self.tokens]
        self.tokens = torch.cat([self.tokens, torch.tensor(chosen)], dim=1)

    def reorder(self, rows, states="fairseq", encoder="fairseq"):
        """Go on with these rows; the states and the encoder's output each by fairseq's method or by hand."""
        if states == "fairseq":
            self.model.decoder.reorder_incremental_state_scripting(self.state, rows)
        else:
            for saved in self.state.values():
                for name, value in saved.items():
                    if value is not None:
                        saved[name] = value.index_select(0, rows) if states == "index_select" else value[rows]
        if encoder == "fairseq":
            self.encoder_out = self.model.encoder.reorder_encoder_out(self.encoder_out, rows)
        else:
            self.encoder_out = selected(self.encoder_out, rows)
        self.tokens = self.tokens[rows]


def test_only_the_best_beam_of_each_sentence_goes_on():
    ours, draw = model("dense"), random.Random(1)
    with torch.no_grad():
        decoding = Decoding(ours, encoded(ours, (7, 5, 9, 3, 6), draw))
        decoding.reorder(torch.arange(5).repeat_interleave(5))
        decoding.step(draw)
        decoding.reorder(torch.arange(5) * 5)
        decoding.step(draw)


def edit_copy(out):
    return dict(out, encoder_out=[out["encoder_out"][0] + torch.randn(out["encoder_out"][0].shape)])


def edit_in_place(out):
    out["encoder_out"][0][:, 1:].add_(1)
    return out


def edit_list(out):
    out["encoder_out"][0] = out["encoder_out"][0] + torch.randn(out["encoder_out"][0].shape)
    return out


def edit_mask(out):
    out["encoder_padding_mask"][0][1::3, -1] = True
    return out


def edit_through_a_view(out):
    out["encoder_out"][0].unbind(1)[1].zero_()
    return out


@pytest.mark.parametrize("edit", [edit_copy, edit_in_place, edit_list, edit_mask, edit_through_a_view])
@pytest.mark.parametrize("grad", [torch.no_grad, torch.inference_mode])
def test_encoder_output_edited_for_each_beam(edit, grad):
    ours, draw = model("dense"), random.Random(2)
    with grad():
        decoding = Decoding(ours, encoded(ours, (7, 5), draw))
        decoding.reorder(torch.arange(2).repeat_interleave(3))
        decoding.encoder_out = edit(decoding.encoder_out)
        decoding.step(draw)
        decoding.step(draw)


BY_HAND = {name: ["index_select", "brackets"] for name in FLAGS}
BY_HAND["stock"] = ["index_select"]  # rows taken with brackets get strides that stock's view does not take


@pytest.mark.parametrize("name, states", [(name, states) for name in FLAGS for states in BY_HAND[name]])
def test_states_reordered_by_hand(name, states):
    ours, draw = model(name), random.Random(3)
    with torch.no_grad():
        decoding = Decoding(ours, encoded(ours, (7, 5, 9, 3), draw))
        decoding.step(draw)
        decoding.reorder(torch.tensor([0, 2, 3]), states=states)
        decoding.step(draw)


@pytest.mark.parametrize("grad", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", [name for name in FLAGS if name != "stock"])  # stock fails where sentences trade places
def test_random_callers(name, seed, grad):
    ours, draw = model(name), random.Random(seed)
    torch.manual_seed(seed)
    with grad():
        decoding = Decoding(ours, encoded(ours, [draw.randint(1, 8) for _ in range(draw.randint(1, 4))], draw))
        if draw.random() < 0.7:
            beams = torch.arange(len(decoding.tokens)).repeat_interleave(draw.randint(1, 4))
            decoding.reorder(beams, encoder=draw.choice(["fairseq", "by hand"]))
        if draw.random() < 0.3:
            decoding.encoder_out = draw.choice([edit_copy, edit_in_place, edit_list])(decoding.encoder_out)
        for _ in range(8):
            decoding.step(draw)
            count = len(decoding.tokens)
            action = draw.randrange(5)
            if action == 0:  # some rows leave
                rows = sorted(draw.sample(range(count), draw.randint(1, count)))
            elif action == 1:  # any rows, any number of times
                rows = [draw.randrange(count) for _ in range(draw.randint(1, count + 2))]
            elif action == 2:  # all change places
                rows = draw.sample(range(count), count)
            else:
                if action == 3:
                    decoding.state = copy.deepcopy(decoding.state)
                continue
            states = draw.choice(["fairseq", *BY_HAND[name]])
            decoding.reorder(torch.tensor(rows), states, draw.choice(["fairseq", "by hand"]))


def test_a_batch_that_shrank_without_its_states_is_refused():
    ours, draw = model("dense"), random.Random(4)
    with torch.no_grad():
        decoding = Decoding(ours, encoded(ours, (7, 5, 9), draw))
        decoding.step(draw)
        decoding.tokens = decoding.tokens[:2]
        decoding.encoder_out = selected(decoding.encoder_out, torch.arange(2))
        with pytest.raises(ValueError, match="reorder_incremental_state_scripting"):
            decoding.step(draw)

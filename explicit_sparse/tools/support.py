"""How many keys the attention of a trained model really uses.

    python -m explicit_sparse.tools.support DATA_BIN --path CHECKPOINT [--gen-subset valid] [--max-sentences 500]

Feeds the reference translations through the model (teacher forcing) and prints JSON: for each
attention site the mean *support* (keys with weight > 0, over heads, queries and layers), the mean
*density* (support / keys the query was allowed to see), both by layer, and what a query was
allowed to see. Padding counts nowhere.
"""

import argparse
import ast
import json
import sys
from collections import defaultdict

import torch
from fairseq import checkpoint_utils, utils

from explicit_sparse import architectures  # noqa: F401  registers our models
from explicit_sparse.attention import SparseMultiheadAttention
from explicit_sparse.mappings import NEG_INF

from . import checkpoints
from .command import ToolError, command


@command
def main(argv=None) -> None:
    """Parse the command line, measure, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("data", help="folder made by fairseq-preprocess")
    parser.add_argument("--path", required=True, help="checkpoint")
    parser.add_argument("--gen-subset", default="valid", help="which part of the data (default: %(default)s)")
    parser.add_argument("--max-sentences", type=int, default=500, help="stop after this many (default: %(default)s)")
    parser.add_argument("--max-tokens", type=int, default=4000, help="tokens a batch (default: %(default)s)")
    parser.add_argument("--model-overrides", default="{}", help="as for fairseq-generate")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    args = parser.parse_args(argv)

    checkpoints.read(args.path)
    overrides = dict(_overrides(args.model_overrides), data=args.data)
    models, _, task = checkpoint_utils.load_model_ensemble_and_task([args.path], arg_overrides=overrides)
    model = models[0].eval()
    use_cuda = torch.cuda.is_available() and not args.cpu
    if use_cuda:
        model.cuda()
    task.load_dataset(args.gen_subset)
    batches = task.get_batch_iterator(
        task.dataset(args.gen_subset),
        max_tokens=args.max_tokens,
        max_sentences=min(args.max_sentences, 64),
        max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
        ignore_invalid_inputs=True,
        required_batch_size_multiple=1,
    ).next_epoch_itr(shuffle=False)
    print(json.dumps(measure(model, batches, args.max_sentences, use_cuda), indent=2))


def _overrides(text: str) -> dict:
    try:
        return dict(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError) as error:
        raise ToolError(
            f"--model-overrides {text}: give a dictionary as fairseq-generate takes it, such as {{'topk': 16}}"
        ) from error


def measure(model, batches, max_sentences: int, use_cuda: bool = False) -> dict:
    """Support and density of every attention site, over the first sentences of some batches.

    Args:
        model: one of ours, in eval mode.
        batches: fairseq's samples, with ``net_input``.
        max_sentences: stop at the first batch that reaches this many.

    Returns:
        {site: {"support", "density", "allowed": floats, "layers": [{"support", "density"}, …]}}

    Raises:
        ToolError: if the model holds no sparse attention, or there was no sentence.
    """
    meter = _Meter(model)
    seen = 0
    with torch.no_grad():
        for sample in batches:
            if seen >= max_sentences:
                break
            sample = utils.move_to_cuda(sample) if use_cuda else sample
            meter.count(sample["net_input"])
            seen += sample["nsentences"]
    return meter.statistics()


class _Meter:
    """Sums over queries of support, density and allowed keys, by site and layer."""

    def __init__(self, model):
        self.model = model
        self.modules = [m for m in model.modules() if isinstance(m, SparseMultiheadAttention)]
        if not self.modules:
            raise ToolError(
                "the model holds no sparse attention: is its architecture explicit_sparse_transformer*? A "
                "checkpoint of fairseq's own becomes one with python -m explicit_sparse.tools.convert"
            )
        self.sums = defaultdict(lambda: torch.zeros(4, dtype=torch.float64))  # support, density, allowed, queries

    def count(self, net_input) -> None:
        """Run one batch and add what its attentions did."""
        target = net_input.get("prev_output_tokens", net_input["src_tokens"])
        pad = self.model.decoder.padding_idx
        queries = {"encoder-self": net_input["src_tokens"] != pad, "decoder-self": target != pad}  # (B, T)
        queries["cross"] = queries["decoder-self"]

        def observe(module, scores, weights):  # (B, H, T, S)
            counted = queries[module.site].unsqueeze(1).expand(scores.shape[:3])  # (B, H, T)
            allowed = (scores != NEG_INF).sum(-1)[counted].double()
            support = (weights > 0).sum(-1)[counted].double()
            self.sums[module.site, module.layer] += torch.tensor(
                [support.sum(), (support / allowed.clamp(min=1)).sum(), allowed.sum(), support.numel()],
                dtype=torch.float64,
            )

        for module in self.modules:
            module.observer = observe
        try:
            self.model(**net_input)
        finally:
            for module in self.modules:
                module.observer = None

    def statistics(self) -> dict:
        """Means by site, and by layer within each."""
        if not self.sums:
            raise ToolError("no sentence was read: is the subset empty, or longer than the model's positions?")
        result = {}
        for site in ("encoder-self", "decoder-self", "cross"):
            layers = [self.sums[key] for key in sorted(self.sums) if key[0] == site]
            if layers:
                support, density, allowed, _ = _means(sum(layers))
                by_layer = [dict(zip(("support", "density"), _means(layer))) for layer in layers]
                result[site] = {"support": support, "density": density, "allowed": allowed, "layers": by_layer}
        return result


def _means(sums) -> list:
    return [round(value, 4) for value in (sums / sums[3]).tolist()]


if __name__ == "__main__":
    sys.exit(main())

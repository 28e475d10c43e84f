"""Every option of the plugin, declared once: the command line, Hydra and checkpoints all read this file."""

from dataclasses import dataclass, field, fields
from math import ceil
from typing import Dict, List, Optional, Sequence, Tuple

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from .schedule import Schedule

SITES = ("encoder-self", "decoder-self", "cross")
MAPPINGS = ("topk", "softmax", "sparsemax", "entmax15", "entmax", "rela", "nm")
PATTERNS = ("full", "block", "window", "dilated", "global", "random", "bigbird", "out-of-window")
ALPHA_MIN, ALPHA_MAX = 1.01, 2.0  # from nearly softmax to sparsemax
KERNELS = ("auto", "short", "long")
DEFAULT_TOPK = 8


class OptionError(SystemExit, ValueError):
    """An unknown or impossible option. One line that names the options.

    It is a ValueError, which Python code can catch; it is a SystemExit, so that a command line
    ends with the line itself and exit status 1 rather than with a traceback.
    """


@dataclass
class SparseAttentionConfig(FairseqDataclass):
    """The options as the user gives them; ``None`` means "not given". :meth:`resolve` checks them."""

    attention_mapping: Optional[ChoiceEnum(MAPPINGS)] = field(
        default=None,
        metadata={
            "help": "how scores become weights (default: topk, or softmax where --topk is 0 "
            "or an --attention-pattern is given without any --topk option)"
        },
    )
    sparse_sites: Optional[str] = field(
        default=None,
        metadata={
            "help": "comma-separated sites where the mapping applies, the others stay softmax "
            "(default: encoder-self,decoder-self,cross)"
        },
    )
    topk: Optional[int] = field(
        default=None,
        metadata={"help": "keys kept per head and query; 0 keeps all, plain softmax (default: 8)"},
    )
    topk_ratio: Optional[float] = field(
        default=None, metadata={"help": "instead of --topk: keep ceil(S/R) of S keys"}
    )
    topk_min: Optional[int] = field(
        default=None, metadata={"help": "with --topk-ratio: keep at least this many keys"}
    )
    encoder_topk: Optional[int] = field(
        default=None, metadata={"help": "--topk for the encoder's self-attention alone"}
    )
    decoder_topk: Optional[int] = field(
        default=None, metadata={"help": "--topk for the decoder's self-attention alone"}
    )
    cross_topk: Optional[int] = field(
        default=None, metadata={"help": "--topk for the decoder's attention to the encoder alone"}
    )
    topk_ties: ChoiceEnum(["keep", "break"]) = field(
        default="keep",
        metadata={"help": "scores equal to the k-th: keep them all (the paper), or exactly k"},
    )
    topk_phase: ChoiceEnum(["both", "train", "generate"]) = field(
        default="both",
        metadata={"help": "select in training, in evaluation (validation and generation), or in both"},
    )
    topk_order: ChoiceEnum(["before", "after"]) = field(
        default="before", metadata={"help": "select before the softmax (the paper) or after it"}
    )
    topk_renormalize: bool = field(
        default=False,
        metadata={"help": "with --topk-order after: make the remaining weights sum to 1"},
    )
    topk_straight_through: bool = field(
        default=False, metadata={"help": "forward top-k, backward dense softmax"}
    )
    topk_warmup_updates: int = field(
        default=0, metadata={"help": "train dense for the first N updates, with top-k from then on"}
    )
    topk_anneal_updates: int = field(
        default=0,
        metadata={
            "help": "in training, k falls from the whole row to its final value over N updates, "
            "the first ones or those after --topk-warmup-updates"
        },
    )
    topk_dense_share: float = field(
        default=0.0, metadata={"help": "each update of the training is dense with this probability"}
    )
    entmax_alpha: Optional[float] = field(
        default=None,
        metadata={
            "help": "with --attention-mapping entmax: fix alpha in [1.01, 2] "
            "instead of learning one for each head"
        },
    )
    rela_norm: Optional[ChoiceEnum(["gated", "plain"])] = field(
        default=None,
        metadata={"help": "with --attention-mapping rela: RMSNorm with a gate (default) or without"},
    )
    nm: Optional[str] = field(
        default=None,
        metadata={"help": "with --attention-mapping nm: N:M, keep N of every M keys (default: 2:4)"},
    )
    attention_pattern: ChoiceEnum(PATTERNS) = field(
        default="full", metadata={"help": "which keys a query may see at all"}
    )
    attention_span: Optional[int] = field(
        default=None, metadata={"help": "how many keys the pattern shows a query"}
    )
    pattern_sites: Optional[str] = field(
        default=None,
        metadata={
            "help": "comma-separated sites where the pattern applies; cross takes random only "
            "(default: encoder-self,decoder-self)"
        },
    )
    pattern_seed: int = field(
        default=1, metadata={"help": "which random keys the patterns random and bigbird draw"}
    )
    attention_kernel: ChoiceEnum(KERNELS) = field(
        default="auto",
        metadata={
            "help": "how top-k is computed, the same to rounding: long never stores the whole matrix of scores, "
            "short does, auto takes long for long rows"
        },
    )

    @classmethod
    def from_model(cls, model_config) -> "SparseAttentionConfig":
        """Read the options off any object with attributes; what is missing or None takes its default.

        So checkpoints of plain fairseq, or older than an option, load.
        """
        options = cls()
        for name in OPTIONS:
            value = getattr(model_config, name, None)
            if value is not None:
                setattr(options, name, value)
        return options

    def resolve(self, sites: Sequence[str] = SITES, seed: int = 1) -> Dict[str, "SiteConfig"]:
        """Check the options and say what they mean at each attention site of a model.

        Args:
            sites: the sites that the model has; a language model has decoder-self only.
            seed: fairseq's ``--seed``, from which ``--topk-dense-share`` draws.

        Returns:
            One :class:`SiteConfig` for each site.

        Raises:
            OptionError: for an unknown value or an impossible combination.
        """
        self._check_values()
        mapping = self._resolve_mapping()
        sparse_sites = _parse_sites("--sparse-sites", self.sparse_sites, SITES, sites)
        pattern_sites = self._resolve_pattern_sites(sites)
        site_topk = {
            "encoder-self": self.encoder_topk,
            "decoder-self": self.decoder_topk,
            "cross": self.cross_topk,
        }
        for site, k in site_topk.items():
            if k is not None and site not in sparse_sites:
                raise OptionError(
                    "{} {}: the site {} is not sparse; add it to --sparse-sites, "
                    "or leave the option out".format(_SITE_OPTION[site], k, site)
                )
        resolved = {
            site: self._at_site(
                mapping if site in sparse_sites else "softmax",
                site_topk[site],
                str(self.attention_pattern) if site in pattern_sites else "full",
                seed,
            )
            for site in sites
        }
        if str(self.attention_kernel) == "long" and all(site.mapping != "topk" for site in resolved.values()):
            raise OptionError(
                "--attention-kernel long computes top-k alone and does not go with {}; "
                "give --topk K, or leave the option out".format(
                    "--topk 0" if self.topk == 0 else "--attention-mapping " + mapping
                )
            )
        return resolved

    def _check_values(self) -> None:
        """Refuse values that are wrong on their own. argparse knows types and choices, overrides do not."""
        for names, types, wanted in _TYPES:
            for name in names:
                value = getattr(self, name)
                if value is not None and (isinstance(value, bool) or not isinstance(value, types)):
                    raise OptionError("{} {!r}: give {}".format(_flag(name), value, wanted))
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and str(value) not in choices:
                raise OptionError(
                    "{} {}: unknown; choose from {}".format(_flag(name), value, ", ".join(choices))
                )
        for name in ("topk", "encoder_topk", "decoder_topk", "cross_topk"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise OptionError(
                    "{} {}: give the number of keys to keep, or 0 for plain softmax".format(
                        _flag(name), value
                    )
                )
        if self.topk is not None and self.topk_ratio is not None:
            raise OptionError(
                "--topk {} and --topk-ratio {} exclude each other; give one".format(
                    self.topk, self.topk_ratio
                )
            )
        if self.topk_ratio is not None and not self.topk_ratio >= 1:
            raise OptionError(
                "--topk-ratio {}: keeps ceil(S/R) of S keys, so R must be at least 1".format(self.topk_ratio)
            )
        if self.topk_min is not None and self.topk_ratio is None:
            raise OptionError(
                "--topk-min {} goes with --topk-ratio; for a fixed number of keys use --topk".format(
                    self.topk_min
                )
            )
        if self.topk_min is not None and self.topk_min < 1:
            raise OptionError("--topk-min {}: must be at least 1".format(self.topk_min))
        if self.topk_renormalize and str(self.topk_order) != "after":
            raise OptionError(
                "--topk-renormalize goes with --topk-order after; before the softmax the weights sum to 1 anyway"
            )
        if self.topk_straight_through and str(self.topk_order) == "after":
            raise OptionError("--topk-straight-through goes with --topk-order before, not after")
        if self.topk_straight_through and str(self.topk_phase) == "generate":
            raise OptionError(
                "--topk-straight-through changes training only, where --topk-phase generate does not select"
            )
        if str(self.attention_kernel) == "long" and (self.topk_straight_through or str(self.topk_order) == "after"):
            raise OptionError(
                "--attention-kernel long never sees the weights of all keys, which {} needs; "
                "leave one of them out".format(
                    "--topk-straight-through" if self.topk_straight_through else "--topk-order after"
                )
            )
        for name in ("topk_warmup_updates", "topk_anneal_updates"):
            if getattr(self, name) < 0:
                raise OptionError(
                    "{} {}: give a number of updates, 0 for none".format(_flag(name), getattr(self, name))
                )
        if not 0 <= self.topk_dense_share < 1:
            raise OptionError(
                "--topk-dense-share {}: a probability, at least 0 and below 1; for dense training "
                "give --topk-phase generate".format(self.topk_dense_share)
            )
        if str(self.topk_phase) == "generate" and self._scheduled():
            raise OptionError(
                "{} {} changes training only, where --topk-phase generate does not select".format(
                    _flag(self._scheduled()[0]), getattr(self, self._scheduled()[0])
                )
            )
        if self.entmax_alpha is not None and not ALPHA_MIN <= self.entmax_alpha <= ALPHA_MAX:
            raise OptionError(
                "--entmax-alpha {}: must be in [{}, {:g}]; for alpha 1 use --attention-mapping softmax".format(
                    self.entmax_alpha, ALPHA_MIN, ALPHA_MAX
                )
            )

    def _resolve_mapping(self) -> str:
        """The mapping meant, with the options that belong to another mapping refused."""
        pattern = str(self.attention_pattern)
        given = self._given_topk_options()
        if self.attention_mapping is not None:
            mapping = str(self.attention_mapping)
        elif pattern == "full" or given:
            mapping = "topk"
        else:
            mapping = "softmax"  # a pattern on its own selects already

        if mapping == "softmax":  # which is what k = 0 means
            given = [option for option in given if not option.endswith("topk 0")]
        if mapping != "topk" and given:
            raise OptionError(
                "{} with --attention-mapping {}: top-k options go with topk only; leave them out "
                "(in --model-overrides: set them to None)".format(", ".join(given), mapping)
            )
        for name, owner in (("entmax_alpha", "entmax"), ("rela_norm", "rela"), ("nm", "nm")):
            value = getattr(self, name)
            if value is not None and mapping != owner:
                raise OptionError(
                    "{} {} goes with --attention-mapping {}, not with {}".format(
                        _flag(name), value, owner, mapping
                    )
                )
        if mapping == "topk" and self.topk == 0:
            if not any((self.encoder_topk, self.decoder_topk, self.cross_topk)):
                mapping = "softmax"
        if pattern == "out-of-window" and mapping != "softmax":
            raise OptionError(
                "--attention-pattern out-of-window selects by itself and goes with "
                "--attention-mapping softmax, not with {}".format(", ".join(given) or mapping)
            )
        return mapping

    def _given_topk_options(self) -> List[str]:
        """The flags of the top-k family, as given."""
        given = [
            "{} {}".format(_flag(name), getattr(self, name))
            for name in ("topk", "topk_ratio", "encoder_topk", "decoder_topk", "cross_topk")
            if getattr(self, name) is not None
        ]
        for name, default in (("topk_ties", "keep"), ("topk_phase", "both"), ("topk_order", "before")):
            if str(getattr(self, name)) != default:
                given.append("{} {}".format(_flag(name), getattr(self, name)))
        if self.topk_straight_through:
            given.append("--topk-straight-through")
        return given + ["{} {}".format(_flag(name), getattr(self, name)) for name in self._scheduled()]

    def _scheduled(self) -> List[str]:
        """The options of the training schedule that are given."""
        return [name for name in _SCHEDULE if getattr(self, name)]

    def _resolve_pattern_sites(self, sites: Sequence[str]) -> Tuple[str, ...]:
        pattern, span = str(self.attention_pattern), self.attention_span
        if pattern == "full":
            for name in ("attention_span", "pattern_sites"):
                if getattr(self, name) is not None:
                    raise OptionError(
                        "{} {} needs an --attention-pattern other than full".format(
                            _flag(name), getattr(self, name)
                        )
                    )
            return ()
        if span is None or span < 1:
            raise OptionError(
                "--attention-pattern {} needs --attention-span K with K >= 1, not {}".format(pattern, span)
            )
        parts = {"bigbird": 4, "out-of-window": 2}.get(pattern, 1)
        if span % parts:
            raise OptionError(
                "--attention-span {}: --attention-pattern {} splits it, give a multiple of {}".format(
                    span, pattern, parts
                )
            )
        chosen = _parse_sites("--pattern-sites", self.pattern_sites, ("encoder-self", "decoder-self"), sites)
        if "cross" in chosen and pattern != "random":
            raise OptionError(
                "--pattern-sites {}: cross takes --attention-pattern random only, not {}, which compares "
                "positions of one sentence".format(self.pattern_sites, pattern)
            )
        return chosen

    def _at_site(self, mapping: str, site_topk: Optional[int], pattern: str, seed: int) -> "SiteConfig":
        k, ratio = 0, None
        if mapping == "topk":
            if site_topk is not None:
                k = site_topk
            elif self.topk_ratio is not None:
                ratio = self.topk_ratio
            else:
                k = DEFAULT_TOPK if self.topk is None else self.topk
            if k == 0 and ratio is None:
                mapping = "softmax"
        return SiteConfig(
            mapping=mapping,
            topk=k,
            topk_ratio=ratio,
            topk_min=self.topk_min or 1,
            ties=str(self.topk_ties),
            phase=str(self.topk_phase),
            order=str(self.topk_order),
            renormalize=bool(self.topk_renormalize),
            straight_through=bool(self.topk_straight_through),
            schedule=Schedule(*(getattr(self, name) for name in _SCHEDULE), seed) if self._scheduled() else None,
            entmax_alpha=self.entmax_alpha,
            rela_norm=str(self.rela_norm or "gated"),
            nm=_parse_nm(self.nm or "2:4"),
            pattern=pattern,
            span=self.attention_span or 0,
            pattern_seed=self.pattern_seed,
            kernel=str(self.attention_kernel),
        )


# The names of all options, with what they are when not given.
OPTIONS = {
    option.name: option.default for option in fields(SparseAttentionConfig) if not option.name.startswith("_")
}


@dataclass(frozen=True)
class SiteConfig:
    """What the options mean at one attention site: checked, with every default filled in."""

    mapping: str = "softmax"
    topk: int = 0
    topk_ratio: Optional[float] = None
    topk_min: int = 1
    ties: str = "keep"
    phase: str = "both"
    order: str = "before"
    renormalize: bool = False
    straight_through: bool = False
    schedule: Optional[Schedule] = None
    entmax_alpha: Optional[float] = None
    rela_norm: str = "gated"
    nm: Tuple[int, int] = (2, 4)
    pattern: str = "full"
    span: int = 0
    pattern_seed: int = 1
    kernel: str = "auto"

    def keys_kept(self, keys: int) -> int:
        """k for a row of ``keys`` keys: --topk, or max(ceil(keys / R), --topk-min)."""
        if self.topk_ratio is None:
            return self.topk
        return max(ceil(keys / self.topk_ratio), self.topk_min)


_SCHEDULE = ("topk_warmup_updates", "topk_anneal_updates", "topk_dense_share")
_SITE_OPTION = {"encoder-self": "--encoder-topk", "decoder-self": "--decoder-topk", "cross": "--cross-topk"}
_TYPES = (
    (
        (
            *("topk", "encoder_topk", "decoder_topk", "cross_topk", "topk_min", "attention_span", "pattern_seed"),
            *("topk_warmup_updates", "topk_anneal_updates"),
        ),
        int,
        "a whole number",
    ),
    (("topk_ratio", "entmax_alpha", "topk_dense_share"), (int, float), "a number"),
    (("sparse_sites", "pattern_sites", "nm"), str, "words in one string"),
)
_CHOICES = {
    "attention_mapping": MAPPINGS,
    "attention_pattern": PATTERNS,
    "topk_ties": ("keep", "break"),
    "topk_phase": ("both", "train", "generate"),
    "topk_order": ("before", "after"),
    "rela_norm": ("gated", "plain"),
    "attention_kernel": KERNELS,
}


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _parse_sites(
    flag: str, value: Optional[str], default: Sequence[str], available: Sequence[str]
) -> Tuple[str, ...]:
    if value is None:
        return tuple(site for site in default if site in available)
    chosen = tuple(site.strip() for site in value.split(","))
    for site in chosen:
        if site not in available:
            raise OptionError(
                "{} {}: {!r} is not an attention site of this model; choose from {}".format(
                    flag, value, site, ", ".join(available)
                )
            )
    return chosen


def _parse_nm(value: str) -> Tuple[int, int]:
    n, _, m = value.partition(":")
    if not (n.isdigit() and m.isdigit() and 1 <= int(n) < int(m)):
        raise OptionError("--nm {}: give N:M with 1 <= N < M, for instance 2:4".format(value))
    return int(n), int(m)

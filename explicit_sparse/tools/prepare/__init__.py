"""From a link to binarised data: fetch, extract, tokenise, clean, split, segment, binarise.

The scripts in ``scripts/prepare/`` are thin callers of this package. It imports neither torch nor fairseq,
so that its worker processes stay small; fairseq runs once, as its own command, at the end.
"""

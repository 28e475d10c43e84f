"""Command-line tools; each module runs with ``python -m explicit_sparse.tools.NAME``."""

"""Fast paths behind the contract of :mod:`explicit_sparse.mappings`; each file is imported where it is used."""

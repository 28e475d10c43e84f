"""``python -m explicit_sparse`` prints the folder to give to fairseq's ``--user-dir``."""

import os

if __name__ == "__main__":
    print(os.path.dirname(os.path.abspath(__file__)))

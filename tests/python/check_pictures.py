# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks the pictures of the documentation: each is what tools/terminal-picture draws of the text beside it, and a browser shows that text in
the rows and columns in which the terminal had it. Prints what it has checked."""

import html
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# As rich draws: the size of a character, in the units of the picture.
WIDTH, HEIGHT = 12.2, 24.4

# For each text: where the browser puts it, and how wide it makes it.
MEASURE = """<pre id="places"></pre><script>
const places = [...document.querySelectorAll(".terminal-matrix text")].map(text => {
  const box = text.getBBox();
  return [text.textContent, text.getStartPositionOfChar(0).x, text.getStartPositionOfChar(0).y, box.width];
});
document.getElementById("places").textContent = JSON.stringify(places);
</script>"""


def load(path):
    loader = importlib.machinery.SourceFileLoader("terminal_picture", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("terminal_picture", loader))
    loader.exec_module(module)
    return module


def shown(picture):
    """The lines that a browser shows."""
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder, "page.html")
        page.write_text(f'<!doctype html><meta charset="utf-8">{picture}{MEASURE}')
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}/profile"]
        ran = subprocess.run([*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=300)
    found = re.search(r'<pre id="places">(.*?)</pre>', ran.stdout, re.S)
    assert found and found[1], f"chromium (status {ran.returncode}) measured nothing: {ran.stderr[-2000:]}"
    rows = {}
    for text, x, y, width in json.loads(html.unescape(found[1])):
        text = text.replace("\u00a0", " ")
        column = round(x / WIDTH)
        assert abs(x - column * WIDTH) < 1, f"{text!r} begins between two columns, at {x}"
        assert abs(width - len(text) * WIDTH) < WIDTH, f"{text!r} is {width} wide, not {len(text)} columns"
        row = rows.setdefault(round((y - 20) / HEIGHT), {})
        row.update({column + place: character for place, character in enumerate(text)})
    lines = []
    for number in range(max(rows) + 1):
        row = rows.get(number, {})
        lines.append("".join(row.get(column, " ") for column in range(max(row, default=-1) + 1)).rstrip())
    return lines


def main():
    painter = load(ROOT / "tools/terminal-picture")
    texts = sorted((ROOT / "docs/pictures").glob("*.ansi"))
    assert texts, "there are no pictures"
    for path in texts:
        title, text = path.read_text().split("\n", 1)
        picture = path.with_suffix(".svg").read_text()
        assert picture == painter.draw(title, text), f"{path.with_suffix('.svg')} is out of date: run make pictures"
        expected = [line.plain for line in painter.lines_of(text)]
        assert shown(picture) == expected, f"{path}: the browser shows {shown(picture)}"
        print(f"{path.name}: {len(expected)} lines")


if __name__ == "__main__":
    sys.exit(main())

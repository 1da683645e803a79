#!/usr/bin/env python3
"""Opens the result page in headless Chromium: it renders without messages on the
console, its table can be sorted, and nothing is wider than the window.

usage: page_in_browser_test.py OPPA [FOLDER FOR SCREENSHOTS]
"""

import html.parser
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

# Runs in the page after it has loaded, and leaves what it found in the title.
PROBE = """
<script>addEventListener('load',function(){
var b=[].slice.call(document.querySelectorAll('#trials th button'))
.find(function(x){return x.textContent==='%s';});
var h=b.parentNode,out=[];
function column(){var i=[].indexOf.call(h.parentNode.children,h);
return [].map.call(document.querySelectorAll('#trials tbody tr'),
function(r){return r.cells[i].getAttribute('data-v')||'';}).join(' ');}
b.click();out.push(h.getAttribute('aria-sort'),column());
b.click();out.push(h.getAttribute('aria-sort'),column());
out.push(document.documentElement.scrollWidth+' '+innerWidth);
document.title=out.join('|');});</script>
"""


class Title(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.inside = False
        self.text = ""

    def handle_starttag(self, tag, attributes):
        self.inside = tag == "title" and not self.text

    def handle_data(self, data):
        if self.inside:
            self.text += data

    def handle_endtag(self, tag):
        self.inside = False


def browse(page, profile, *words):
    result = subprocess.run(
        [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu",
         "--hide-scrollbars", "--enable-logging=stderr",
         f"--user-data-dir={profile}", *words, page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True)
    console = [line for line in result.stderr.splitlines() if "CONSOLE" in line]
    assert not console, console
    return result.stdout


def numbers(text):
    return [float(cell) for cell in text.split(" ") if cell]


def check_sort(page, folder, name, window):
    probed = folder / "probed.html"
    probed.write_text(
        page.read_text(encoding="utf-8").replace(
            "</body>", PROBE % name + "</body>"), encoding="utf-8")
    title = Title()
    title.feed(browse(probed, folder / "profile", "--dump-dom",
                      f"--window-size={window}"))
    first, one, second, two, widths = title.text.split("|")
    assert {first, second} == {"ascending", "descending"}, title.text
    for order, cells in ((first, one), (second, two)):
        values = numbers(cells)
        assert len(values) > 2, cells
        assert values == sorted(values, reverse=order == "descending"), cells
        known = [cell != "" for cell in cells.split(" ")]
        assert known == sorted(known, reverse=True), "unknown values come last"
    page_width, window_width = map(int, widths.split())
    assert page_width <= window_width, f"{page_width} px in {window_width}"


def main():
    if BROWSER is None:
        print("no Chromium: apt-get install chromium")
        return 77
    oppa = pathlib.Path(sys.argv[1]).resolve()
    shots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        results = folder / "results"
        subprocess.run(
            [oppa, "run", SOURCE / "experiments/smoke.toml", "--methods", "oppa",
             "--repeats", "1", "--no-report", "--results", results],
            check=True, stdout=subprocess.DEVNULL)
        (results / "smoke/best.sh").write_text("torchrun train.py --dp 4\n")
        subprocess.run([oppa, "page", results / "smoke"], check=True,
                       stdout=subprocess.DEVNULL)
        page = results / "smoke/page.html"
        for column in ("#", "steps/s", "Peak GB"):
            check_sort(page, folder, column, "1200,900")
        check_sort(page, folder, "Speed-up", "500,900")
        if shots:
            shots.mkdir(parents=True, exist_ok=True)
            for label, window in (("desktop", "1200,2600"), ("phone", "500,3400")):
                browse(page, folder / "profile", f"--window-size={window}",
                       f"--screenshot={os.path.abspath(shots)}/page-{label}.png")
    print("the page renders, sorts and fits")
    return 0


if __name__ == "__main__":
    sys.exit(main())

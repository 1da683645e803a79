#!/usr/bin/env python3
"""Opens the result page and the page of a plan in headless Chromium: they render
without messages on the console, and nothing is wider than the window; the table
of trials can be sorted; the page of a plan shows the numbers of --json, can be
used with the keyboard, has enough contrast and prints.

usage: page_in_browser_test.py OPPA [FOLDER FOR SCREENSHOTS]
"""

import html.parser
import json
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


# The same for the page of a plan, as JSON.
PLAN_PROBE = """
<script>addEventListener('load',function(){
var all=function(where,root){return [].slice.call((root||document).querySelectorAll(where));};
var key=function(element,name){element.focus();element.dispatchEvent(new KeyboardEvent('keydown',{key:name,bubbles:true}));};
function rgb(text){var n=text.match(/[\\d.]+/g).map(Number);return {c:n.slice(0,3),a:n.length>3?n[3]:1};}
function light(c){return c.map(function(x){x/=255;return x<=.03928?x/12.92:Math.pow((x+.055)/1.055,2.4);})
.reduce(function(sum,x,i){return sum+x*[.2126,.7152,.0722][i];},0);}
function contrasts(){var least={ratio:99,text:''};all('body *').forEach(function(e){
if(!e.getClientRects().length||!['SCRIPT','STYLE','OPTION','title'].indexOf(e.tagName)||
![].some.call(e.childNodes,function(n){return n.nodeType===3&&n.data.trim();}))return;
var svg=e.namespaceURI.indexOf('svg')>0,style=getComputedStyle(e),ink=rgb(svg?style.fill:style.color).c,behind=e;
if(e.tagName==='title'||e.tagName==='OPTION')return;
while(behind&&rgb(getComputedStyle(behind).backgroundColor).a===0)behind=behind.parentElement;
var ground=rgb(getComputedStyle(behind).backgroundColor).c;
var cell=svg&&e.parentNode.tagName==='g'&&e.parentNode.querySelector('rect.cell');if(cell)ground=rgb(getComputedStyle(cell).fill).c;
var l=[light(ink),light(ground)].sort(function(a,b){return b-a;}),ratio=(l[0]+.05)/(l[1]+.05);
if(ratio<least.ratio)least={ratio:ratio,text:e.textContent.slice(0,40)};});return least;}
var out={heading:document.querySelector('h1').textContent,dark:matchMedia('(prefers-color-scheme: dark)').matches,
contrast:contrasts(),width:[document.documentElement.scrollWidth,innerWidth],unnamed:all('svg[role],input,select,button,[tabindex]').filter(function(e){
return !(e.getAttribute('aria-label')||e.textContent.trim()||e.closest('label'));}).length};
out.frameworks=all('.framework').map(function(f){return {
rows:all('table:first-of-type tbody tr',f.querySelector('.scroll')).map(function(r){return [].map.call(r.cells,function(c){return c.getAttribute('data-v')||c.textContent;});}),
parts:all('.rows svg[data-kind]',f).map(function(s){return all('rect',s).reduce(function(sum,r){return sum+ +r.getAttribute('data-v');},0);}),
memory:all('.memory svg',f).map(function(s){var by={};all('rect[data-stage]',s).forEach(function(r){var k=r.getAttribute('data-stage');by[k]=(by[k]||0)+ +r.getAttribute('data-v');});
return Math.max.apply(null,Object.values(by));}),
ends:all('svg.time',f).map(function(s){return +s.getAttribute('data-end');}),
critical:all('svg.time .critical',f).map(function(p){return p.getAttribute('d').length;})};});
function answers(){return all('#answers tbody tr').map(function(r){return [].map.call(r.cells,function(c){return c.getAttribute('data-v')||c.textContent;});});}
out.present=answers();
var knobs=all('#steps input[type=range]');out.options=knobs.map(function(k){return k.getAttribute('data-option');});
out.moved=[];%s.forEach(function(move){knobs.forEach(function(k,i){var v=move[i];if(+k.value!==v){k.value=v;k.dispatchEvent(new Event('input'));}});
out.moved.push(answers());});
var price=document.getElementById('price');price.value='2.5';price.dispatchEvent(new Event('input'));out.priced=answers();
var time=document.querySelector('svg.time');if(time){out.said=[];['ArrowRight','ArrowDown','ArrowLeft'].forEach(function(name){key(time,name);out.said.push(time.closest('.rows').querySelector('.said').textContent);});
var ticks=function(){return all('text',time).map(function(t){return t.textContent;}).join(' ');};var whole=ticks();key(time,'+');out.zoomed=ticks()!==whole;key(time,'0');out.back=ticks()===whole;
var cell=document.querySelector('.place g');cell.focus();key(cell,'ArrowRight');out.focused=document.activeElement.getAttribute('data-rank');
out.marked=all('.place:first-of-type .on').length;}
dispatchEvent(new Event('beforeprint'));out.open=all('details').every(function(d){return d.open;});
document.title=JSON.stringify(out);});</script>
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


def probe_plan(page, folder, moves, *words):
    """What the probe finds in the page of a plan."""
    probed = folder / "probed.html"
    probed.write_text(
        page.read_text(encoding="utf-8").replace(
            "</body>", PLAN_PROBE % json.dumps(moves) + "</body>"),
        encoding="utf-8")
    title = Title()
    title.feed(browse(probed, folder / "profile", "--dump-dom", *words))
    found = json.loads(title.text)
    assert found["width"][0] <= found["width"][1], found["width"]
    assert found["contrast"]["ratio"] >= 4.5, found["contrast"]
    assert found["unnamed"] == 0, "controls and figures without a name"
    assert found["open"], "print shows all"
    return found


def plan(oppa, options):
    words = [word for pair in options.items() for word in pair]
    result = subprocess.run([oppa, "plan", *words, "--json", "--layouts", "100000"],
                            capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def same(shown, expected):
    assert abs(float(shown) - expected) <= 1e-5 * abs(expected), (shown, expected)


def check_answers(rows, plans):
    for row, one in zip(rows, plans, strict=True):
        best = one["layouts"][0]
        assert row[1] == best["layout"], (row, best["layout"])
        same(row[2], best["step_time_s"])
        same(row[4], best["tokens_per_s_per_gpu"])
        same(row[5], best["mfu"])
        same(row[6], best["peak_memory_bytes"])


def check_plan(oppa, folder, shots):
    hostile = folder / "<img src=x onerror=alert(1)> & \"x\".json"
    hostile.write_bytes((SOURCE / "experiments/workloads/llama-3-8b.json").read_bytes())
    options = {"--model": str(hostile), "--gpu": "h100", "--gpus": "2x8", "--batch": "64", "--seq": "8192"}
    page = folder / "plan.html"
    subprocess.run([oppa, "plan", *(word for pair in options.items() for word in pair), "--html", page], check=True, stdout=subprocess.DEVNULL)
    plans = plan(oppa, options)
    moves = [[1, 2, 1, 1, 1], [2, 2, 0, 0, 2]]  # of GPUs, batch, sequence, bandwidths
    found = probe_plan(page, folder, moves, "--window-size=1240,2000")
    assert found["heading"].startswith(hostile.stem), found["heading"]
    assert not found["dark"]
    for framework, one in zip(found["frameworks"], plans, strict=True):
        layouts = {row["layout"]: row for row in reversed(one["layouts"])}
        assert framework["rows"]
        for i, row in enumerate(framework["rows"]):
            expected = layouts[row[0]]
            for cell, key in ((1, "tokens_per_s_per_gpu"), (2, "mfu"), (3, "step_time_s"), (4, "peak_memory_bytes"),
                              (6, "fit_probability"), (7, "microbatches"), (8, "micro_batch_size")):
                same(row[cell], expected[key])
            same(framework["parts"][i], expected["step_time_s"])
            same(framework["ends"][i], expected["step_time_s"])
            same(framework["memory"][i], expected["peak_memory_bytes"])
            assert framework["critical"][i] > 0
    check_answers(found["present"], plans)
    assert found["options"] == ["--gpus", "--batch", "--seq", "--intra", "--inter"]
    check_answers(found["moved"][0], plan(oppa, options | {"--batch": "128"}))
    others = options | {"--gpus": "4x8", "--batch": "128", "--seq": "4096", "--intra": "185", "--inter": "92"}
    check_answers(found["moved"][1], plan(oppa, others))
    for row, one in zip(found["priced"], plan(oppa, others | {"--price": "2.5"}), strict=True):
        same(row[8], one["price_per_step"])
        same(row[9], one["price_per_billion_tokens"])
    assert all(found["said"]) and len(set(found["said"])) > 1, found["said"]
    assert found["zoomed"] and found["back"] and found["focused"] == "1" and found["marked"] > 1, found
    dark = probe_plan(page, folder, moves, "--window-size=500,2000", "--blink-settings=preferredColorScheme=0")
    assert dark["dark"]
    paper = folder / "plan.pdf"
    browse(page, folder / "profile", f"--print-to-pdf={paper}")
    assert paper.read_bytes().startswith(b"%PDF") and paper.stat().st_size > 20000
    if shots:
        for label, window, more in (("desktop", "1240,3600", []), ("phone", "500,4400", []),
                                    ("dark", "1240,3600", ["--blink-settings=preferredColorScheme=0"])):
            browse(page, folder / "profile", f"--window-size={window}", *more,
                   f"--screenshot={os.path.abspath(shots)}/plan-{label}.png")


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
        check_plan(oppa, folder, shots)
    print("the pages render, fit, sort, and show the numbers of --json")
    return 0


if __name__ == "__main__":
    sys.exit(main())

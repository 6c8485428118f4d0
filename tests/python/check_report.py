# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks a page of `piste report`: that it is whole, allows nothing, and says what `piste --json` says.

Arguments: the page, and any of insights=FILE and ANALYSIS:TABLE=FILE with what `piste --json insights` and `piste --json analyze` print. Prints
what is wrong, a line each.
"""

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "br"}
BYTES_MAX = 2 << 20
UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
# Elements that could do something, or load something.
FORBIDDEN = {"script", "iframe", "object", "embed", "img", "image", "link", "base", "form", "video", "audio", "use", "foreignobject", "b", "i"}


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.wrong = []
        self.open = []
        self.ids = set()
        self.links = []
        self.policy = None
        self.style = ""
        self.text = ""
        self.tables = {}
        self.rows = None
        self.caption = ""
        self.heading = ""

    def handle_starttag(self, tag, attributes):
        if tag in FORBIDDEN:
            self.wrong.append(f"<{tag}> {attributes}")
        for name, value in attributes:
            if name.startswith("on") or name in ("src", "srcset", "style", "action", "xlink:href"):
                self.wrong.append(f"<{tag} {name}={value!r}>")
            if name == "href" and not value.startswith("#insight-"):
                self.wrong.append(f"<{tag} href={value!r}>")
        known = dict(attributes)
        if "id" in known:
            self.ids.add(known["id"])
        if "href" in known:
            self.links.append(known["href"])
        if tag == "meta" and known.get("http-equiv") == "Content-Security-Policy":
            self.policy = known["content"]
        if tag == "table":
            self.rows, self.caption = [], ""
        if tag == "h2":
            self.heading = ""
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> ends another element")
        if tag == "table":
            self.tables[self.heading, self.caption] = self.rows

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data
            return
        self.text += data
        if "h2" in self.open:
            self.heading += data
        if "caption" in self.open:
            self.caption += data
        if self.open and ("td" in self.open or "th" in self.open):
            self.rows[-1][-1] += data


def measured(text):
    """The number that a text begins with, in nanoseconds where it is a duration."""
    parts = re.fullmatch(r"(-?[\d,]+(?:\.\d+)?)(?: (ns|µs|ms|s))?", text)
    if not parts:
        return None
    return float(parts[1].replace(",", "")) * UNITS.get(parts[2], 1)


def check_insights(page, answer):
    for insight in answer["insights"]:
        for key in ("kind", "what", "command"):
            if insight[key] not in page.text:
                yield f"no {key} {insight[key]!r}"
    count = sum(1 for name in page.ids if name.startswith("insight-"))
    if count != len(answer["insights"]):
        yield f"{count} insights, not {len(answer['insights'])}"


def check_table(page, answer, table, title):
    """Every value of the first rows is in the row of the page, rounded."""
    wanted = answer[table]
    if not wanted:
        return
    if title not in page.tables:
        yield f"no table {title!r} in {list(page.tables)}"
        return
    rows = page.tables[title][1:]
    if len(rows) != min(len(wanted), 10):
        yield f"{title}: {len(rows)} rows of {len(wanted)}"
    for row, values in zip(rows, wanted):
        for key, value in values.items():
            if isinstance(value, str) and value and value not in row:
                yield f"{title}: no {key} {value!r} in {row}"
            if isinstance(value, (int, float)) and value:
                found = [number for number in map(measured, row) if number is not None]
                if not any(abs(number - value) <= max(0.006 * abs(value), 0.06) for number in found):
                    yield f"{title}: no {key} {value} in {row}"


# By analysis and table: the heading above the table in the page, and its caption.
TITLES = {
    "cputop:threads": ("CPU time", "Threads"),
    "cputop:cpus": ("CPU time", "CPUs"),
    "syscallstats:syscalls": ("System calls", "System calls"),
    "schedstats:threads": ("Waits for a CPU", "Threads"),
    "blocked:waits": ("What threads waited for", "Waits"),
}


def main():
    source = Path(sys.argv[1]).read_bytes()
    page = Page()
    page.feed(source.decode())
    page.close()
    wrong = page.wrong
    if page.open:
        wrong.append(f"not closed: {page.open}")
    if len(source) > BYTES_MAX:
        wrong.append(f"{len(source)} bytes")
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    if page.policy != policy:
        wrong.append(f"the policy is {page.policy!r}, not {policy!r}")
    if "@import" in page.style or re.search(r"url\((?!#)", page.style):
        wrong.append("the style loads something")
    wrong += [f"{link} leads nowhere" for link in page.links if link[1:] not in page.ids]
    for argument in sys.argv[2:]:
        what, _, path = argument.partition("=")
        answer = json.loads(Path(path).read_text())
        if what == "insights":
            wrong += check_insights(page, answer)
        else:
            wrong += check_table(page, answer, what.split(":")[1], TITLES[what])
    print("\n".join(wrong))


main()

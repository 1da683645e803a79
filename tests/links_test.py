"""Checks that links between the Markdown files lead to files and headings that exist."""

import pathlib
import re
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = re.compile(r"^```.*?^```|^(?: {4}|\t)[^\n]*|``.*?``|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)|^\[[^\]]+\]: +(\S+)", re.MULTILINE)


def pages(root):
    """The Markdown files below a folder, without those that are built or recorded there."""
    return [path for path in sorted(root.rglob("*.md"))
            if not {"build", ".git", "results"} & set(path.relative_to(root).parts[:-1])]


def anchors(path):
    """The anchors of the headings of a page, as GitHub forms them."""
    found = []
    for title in re.findall(r"^#+ +(.+?)(?: +#+)?$", re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE),
                            re.MULTILINE):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.append(anchor + (f"-{found.count(anchor)}" if anchor in found else ""))
    return found


def dead_links(root):
    dead = []
    for page in pages(root):
        for match in LINK.finditer(CODE.sub("", page.read_text())):
            link = urllib.parse.unquote(match[1] or match[2])
            if re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = link.partition("#")
            target = page.parent / file if file else page
            if not target.exists() or anchor and (target.suffix != ".md" or anchor not in anchors(target)):
                dead.append(f"{page.relative_to(root)}: {link}")
    return dead


class LinksTest(unittest.TestCase):
    def test_every_link_of_the_documents_leads_somewhere(self):
        self.assertGreater(len(pages(ROOT)), 50)
        self.assertEqual(dead_links(ROOT), [])

    def test_missing_files_and_headings_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text("# A title: `code`\n[a](#a-title-code) [b](page.md#b) [c](none.md) [d](https://d) `[e](none.md)`\n"
                            "```\n# f\n[g](none.md)\n```\n[f](#f)\n")
            self.assertEqual(dead_links(pathlib.Path(folder)), ["page.md: page.md#b", "page.md: none.md", "page.md: #f"])


if __name__ == "__main__":
    unittest.main()

"""Every test that docs/reliability.md names exists."""
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class ReliabilityDocsTest(unittest.TestCase):
    def setUp(self):
        self.names = re.findall(r"`([^`]+)`", (ROOT / "docs/reliability.md").read_text())

    def test_named_tests_exist(self):
        sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("*_test.cc"))
        known = {".".join(pair) for pair in
                 re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", sources, re.MULTILINE)}
        named = [name for name in self.names if re.fullmatch(r"[A-Z]\w+\.[A-Z]\w+", name)]
        self.assertGreater(len(named), 50)
        self.assertEqual([name for name in named if name not in known], [])

    def test_named_scripts_exist(self):
        scripts = [name for name in self.names if re.fullmatch(r"\w+\.(py|sh)", name)]
        self.assertGreater(len(scripts), 10)
        self.assertEqual([name for name in scripts
                          if not (ROOT / "tests/faults" / name).exists()], [])


if __name__ == "__main__":
    unittest.main()

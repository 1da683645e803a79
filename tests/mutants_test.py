"""A file with all its mutants behaves as each of them, and shows which parts are evaluated."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MUTANTS = Path(__file__).resolve().parent / "mutants"
COMPILER = sys.argv.pop(1) if len(sys.argv) > 1 else "c++"
sys.path.insert(0, str(MUTANTS))
from schemata import Schemata, masked  # noqa: E402

INCLUDES = """
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
"""
SAMPLE = INCLUDES + r"""
constexpr int kMost = 1'000;  // not 5 - 3
constexpr double kHalf = 0.5;
constexpr int kUnread = 6;

constexpr int Twice(int x) { return x * 2; }

int Unreached(int x) { return x - 1; }

template <class T>
T Join(const T& first, const T& second) {
  return first + second;
}

bool Within(int low, int x, int high) {
  return low <= x && x < high;
}

int Run() {
  std::array<int, 3> values = {4, 5, 6};
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    sum += values.at(i);
  }
  const std::string text = std::string("a + b") + "c";
  std::string twice = Join(text, text);
  twice += sum == 15
               ? std::string(
                     "one")
               : std::string("two",
                             1 * sum,
                             1);
  const char* sign = sum / 0.25 > kMost || sum == 15 ? "yes" : "no";
  if (Within(1, sum, 10) || (Within(2, sum, 20) &&  // in "both" lines
                             sum != 3)) {
    sum -= 7;
  }
  switch (sum) {
    case 8:
      std::printf("eight ");
  }
  std::printf("%d %d %s %d %.3f %zu", std::min(sum, 9), std::max({1, Twice(sum), 3}), sign,
              Within(8, sum, 9), sum * kHalf, text.size() + twice.size());
  return 0;
}
"""
MAIN = "int main() { return %s; }"


class MutantsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = Path(cls.folder.name)
        cls.all = Schemata("sample.cc", SAMPLE, 100)
        while True:
            rendered, places = cls.all.render()
            result = cls.compile(rendered + "\n" + MAIN % "Run()", "all", "-include",
                                 MUTANTS / "mutants.h")
            if result.returncode == 0:
                break
            if not cls.all.drop(rendered, places, result.stderr, str(cls.work / "all.cc")):
                raise AssertionError(result.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def compile(cls, text, name, *more):
        source = cls.work / (name + ".cc")
        source.write_text(text)
        return subprocess.run([COMPILER, "-std=c++20", "-O0", "-w", *more, source, "-o",
                               cls.work / name], capture_output=True, text=True,
                              env={**os.environ, "LC_ALL": "C"})

    def output(self, name, *arguments, **environment):
        try:
            result = subprocess.run([self.work / name, *arguments], capture_output=True, timeout=5,
                                    env={**os.environ, **environment})
        except subprocess.TimeoutExpired:
            return None
        return (result.returncode, result.stdout)

    def test_each_mutant_behaves_as_if_compiled_alone(self):
        """In the other program each has a namespace."""
        mutants = [mutant for site in self.all.alive() for mutant in site.mutants]
        texts = {0: SAMPLE} | {m.number: m.text(SAMPLE) for m in mutants}
        alone = INCLUDES + "".join(f"namespace n{number} {{{text.replace(INCLUDES, '')}}}\n"
                                   for number, text in texts.items())
        calls = "".join(f"mutant == {number} ? n{number}::Run() : " for number in texts)
        self.assertEqual(self.compile(alone + "int main(int, char** a) { int mutant = "
                                      f"std::atoi(a[1]); return {calls}1; }}", "alone").stderr, "")
        plain = self.output("alone", "0")
        self.assertEqual(self.output("all"), plain)
        changed = 0
        for mutant in mutants:
            expected = self.output("alone", str(mutant.number))
            self.assertEqual(self.output("all", OPPA_MUTANT=str(mutant.number)), expected,
                             str(mutant))
            changed += expected != plain
        self.assertGreater(changed, 30)

    def test_what_must_be_constant_or_is_not_valid_is_left_out(self):
        left_out = {(s.why_not, str(s.mutants[0]).split("  =>  ")[1])
                    for s in self.all.sites if s.why_not}
        self.assertEqual(left_out, {
            ("needs a constant", "std::array<int, 4> values = {4, 5, 6};"),
            ("needs a constant", "case 9:"),
            ("not valid C++", "return first - second;"),
            ("not valid C++", "twice -= sum == 15"),
            ("not valid C++", 'const std::string text = std::string("a + b") - "c";')})

    def test_sites_and_constants_are_reached_where_they_are_evaluated(self):
        reached = self.work / "reached"
        reached.write_bytes(bytes(self.all.end))
        self.output("all", OPPA_MUTANTS_REACHED=str(reached))
        seen = reached.read_bytes()
        for site in self.all.alive():
            if "Unreached" in site.mutants[0].source:
                self.assertEqual(seen[site.mutants[0].number], 0)
            elif "Within(8" in site.mutants[0].source:
                self.assertEqual(seen[site.mutants[0].number], 1)
        read = {c.name: seen[c.number] for c in self.all.constants if c.is_global}
        self.assertEqual(read, {"kMost": 1, "kHalf": 1, "kUnread": 0})

    def test_lines_keep_their_numbers(self):
        self.assertEqual(self.all.render()[0].count("\n"), SAMPLE.count("\n"))

    def test_comments_and_strings_are_not_mutated(self):
        self.assertNotIn("5 - 3", masked(SAMPLE))
        self.assertNotIn("a + b", masked(SAMPLE))


if __name__ == "__main__":
    unittest.main()

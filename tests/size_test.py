"""Checks that scripts/size notices what grows, in a copy of common/ whose limits are the numbers of the copy."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent.parent


class SizeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()), "tree")
        shutil.copytree(SOURCE / "common", cls.root / "common")
        shutil.copytree(SOURCE / "scripts", cls.root / "scripts", ignore=lambda _, names: [n for n in names if "size" not in n])
        (cls.root / "page.md").write_text("Five words are on it.\n")
        subprocess.run(["git", "init", "--quiet", cls.root], check=True)
        for _ in range(2):  # the file of the limits is one of those counted, and becomes shorter
            subprocess.run([cls.root / "scripts/size", "--tighten"], check=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(shutil.copytree(type(self).root, pathlib.Path(folder.name, "tree")))

    def size(self, *flags):
        run = subprocess.run([self.root / "scripts/size", *flags], capture_output=True, text=True)
        self.assertEqual(run.stderr, "")
        self.assertEqual(run.returncode, int("ok" not in run.stdout and "--check" in flags), run.stdout)
        return run.stdout

    def limit(self, name):
        return int(re.search(rf'^"?{name}"? = (\d+)$', (self.root / "scripts/size.toml").read_text(), re.MULTILINE)[1])

    def append(self, text, path="common/text.cc"):
        with open(self.root / path, "a") as file:
            file.write(text)

    def test_a_number_at_its_limit_passes(self):
        self.assertEqual(self.size("--check"), "size: ok\n")

    def test_a_line_too_many_fails_and_names_its_folder(self):
        lines = self.limit("common")
        self.append("\n")
        self.assertIn(f"common: {lines + 1} lines of C++, more than the limit of {lines}: ", self.size("--check"))

    def test_a_new_folder_needs_a_limit(self):
        (self.root / "rooms").mkdir()
        self.append("int i;\n", "rooms/new.cc")
        self.assertIn("rooms: 1 lines of C++, without a limit: ", self.size("--check"))

    def test_a_word_too_many_fails(self):
        self.append("word\n", "page.md")
        self.assertIn("words of documents: 6, more than the limit of 5: ", self.size("--check"))

    def test_a_function_too_long_too_complex_or_with_too_many_parameters_fails_at_its_place(self):
        first = (self.root / "common/text.cc").read_text().count("\n") + 1
        for lines in (60, 61, 101):
            self.append("void Long() {" + "\n" * (lines - 1) + "}\n")
        self.append("int Simple(int a) { return " + "a && " * 14 + "a; }\n")
        self.append("int Complex(int a) { return " + "a && " * 15 + "a; }\n")
        self.append("void Few(int a, int b, int c, int d, int e, std::map<int, int> f) {}\n")
        self.append("void Many(int a, int b, int c, int d, int e, int f, int g) {}\n")
        printed = self.size("--check")
        for name, places in (("over 60 lines", [(60, 61), (121, 101)]), ("over 100 lines", [(121, 101)]),
                             ("of complexity over 15", [(223, 16)]), ("of 7 parameters or more", [(225, 7)])):
            limit = self.limit(f"functions {name}")
            self.assertIn(f"functions {name}: {limit + len(places)}, more than the limit of {limit}: ", printed)
            for line, number in places:
                self.assertIn(f"\n    common/text.cc:{first + line} ({number})", printed)
        self.assertNotIn(f"text.cc:{first} ", printed)

    def test_a_file_that_learns_a_feature_fails_and_one_that_only_speaks_of_it_does_not(self):
        files = self.limit("money")
        self.append('// The price.\nconst char* kText = "no money left";\n')
        self.assertNotIn("money", self.size("--check"))
        self.append("double price = 1.0;\n")
        self.assertIn(f"money: {files + 1} files that know it, more than the limit of {files}: ", self.size("--check"))

    def test_a_field_of_the_framework_fails(self):
        (self.root / "trials/simulator").mkdir(parents=True)
        self.append("struct Framework {\n    OPPA_FIELD(bool, flag, false);  // a flag\n};\n", "trials/simulator/framework.h")
        self.assertIn("fields of Framework: 1, more than the limit of 0: ", self.size("--check"))

    def test_a_number_below_its_limit_fails_until_the_limit_is_lowered(self):
        lines, words = self.limit("common"), self.limit("words of documents")
        path = self.root / "common/text.cc"
        path.write_text(path.read_text().replace("\n\n", "\n", 1))
        self.append("one more\n", "page.md")
        self.assertIn(f"common: {lines - 1} lines of C++, less than the limit of {lines}: ", self.size("--check"))
        self.size("--tighten")
        self.assertEqual((self.limit("common"), self.limit("words of documents")), (lines - 1, words))
        self.assertNotIn("common: ", self.size("--check"))


if __name__ == "__main__":
    unittest.main()

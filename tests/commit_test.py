"""Checks harness/commit.cmake, which says what commit a build is of.

Usage: commit_test.py CMAKE GIT
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CMAKE, GIT = sys.argv[1:]
SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "harness" / "commit.cmake"
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}


class CommitTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.source = pathlib.Path(self.folder.name) / "source"
        self.output = pathlib.Path(self.folder.name) / "commit.cc"
        (self.source / "inner").mkdir(parents=True)
        (self.source / "file").write_text("1")

    def git(self, *words):
        names = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        run = subprocess.run([GIT, *names, *words], cwd=self.source, env=ENVIRONMENT, check=True,
                             capture_output=True, text=True)
        return run.stdout.strip()

    def commit(self):
        self.git("add", "file")
        self.git("commit", "-m", "message")
        return self.git("rev-parse", "HEAD")

    def written(self, source=None, git=GIT):
        subprocess.run([CMAKE, "-D", f"GIT={git}", "-D", f"SOURCE={source or self.source}",
                        "-D", f"OUTPUT={self.output}", "-P", SCRIPT], env=ENVIRONMENT, check=True)
        return self.output.read_text()

    def test_names_the_commit_and_follows_it(self):
        self.git("init")
        first = self.commit()
        self.assertIn(f'{{"{first}", false}}', self.written())
        (self.source / "file").write_text("2")
        self.assertIn(f'{{"{first}", true}}', self.written())
        second = self.commit()
        self.assertIn(f'{{"{second}", false}}', self.written())

    def test_files_that_git_does_not_know_change_nothing(self):
        self.git("init")
        commit = self.commit()
        (self.source / "another").write_text("")
        self.assertIn(f'{{"{commit}", false}}', self.written())

    def test_leaves_alone_what_is_right(self):
        self.git("init")
        self.commit()
        self.written()
        os.utime(self.output, (1, 1))
        self.written()
        self.assertEqual(self.output.stat().st_mtime, 1)

    def test_is_unknown_without_a_repository_of_its_own(self):
        unknown = '{"unknown", false}'
        self.assertIn(unknown, self.written())
        self.git("init")
        self.assertIn(unknown, self.written())  # nothing committed
        self.commit()
        self.assertIn(unknown, self.written(source=self.source / "inner"))
        self.assertIn(unknown, self.written(git=""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

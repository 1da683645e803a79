#!/usr/bin/env python3
"""Counts a few models with Transformers again: tests/reference/model_counts.csv is what scripts/reference-counts writes.

Skipped (exit code 77) without Transformers and torch.
"""
import csv
import importlib.util
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "tests/reference"
FILES = ("gpt2.json", "llama-3.2-1b.json", "nemotron-h-8b.json", "qwen3-30b-a3b.json", "whisper-large-v3.json")


class ModelCounts(unittest.TestCase):
    def test_rows_are_what_the_script_counts(self):
        counted = subprocess.run([sys.executable, ROOT / "scripts/reference-counts",
                                  *(REFERENCE / "models" / name for name in FILES)],
                                 capture_output=True, text=True, check=True).stdout
        def rows(lines):
            return {(row["file"], row["class"]): row["parameters"] for row in csv.DictReader(lines)}
        stored = rows((REFERENCE / "model_counts.csv").read_text().splitlines())
        for key, parameters in rows(counted.splitlines()).items():
            self.assertEqual(stored[key], parameters, key)


if __name__ == "__main__":
    if not (importlib.util.find_spec("transformers") and importlib.util.find_spec("torch")):
        sys.exit(77)
    unittest.main()

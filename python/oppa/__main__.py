"""`python -m oppa` is the program `oppa`."""
import os
import sys

from ._program import find_program

program = find_program()
os.execv(program, [program, *sys.argv[1:]])

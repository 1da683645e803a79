"""Finds the mutants of a C++ file and rewrites the file so that it contains all of them at once.

mutants.h has the run-time part. A site is a place in the file with one or more mutants; `Schemata`
numbers them and renders the file. A site that does not compile is dropped by the compiler's errors:
where a constant expression is required, the file keeps what it had.
"""
import re

SWAPS = {"+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",),
         "+=": ("-=",), "-=": ("+=",), "*=": ("/=",), "/=": ("*=",),
         "<": ("<=", ">"), "<=": ("<",), ">": (">=", "<"), ">=": (">",),
         "==": ("!=",), "!=": ("==",), "&&": ("||",), "||": ("&&",)}
EXTREMES = {"std::min(": "std::max(", "std::max(": "std::min("}
OPERATOR = re.compile("(?<= )(?:" + "|".join(map(re.escape, sorted(SWAPS, key=len, reverse=True)))
                      + r")(?=[ \n])")
NUMBER = re.compile(r"(?<![\w.'])(\d[\d']*\.\d+(?:e-?\d+)?|\d[\d']*(?:e-?\d+)?)(?![\w.'])")


LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
                     r"(?<!\w)'(?:\\.|[^'\\])'|^#[^\n]*", re.DOTALL | re.MULTILINE)


def blank(match, by):
    return re.sub(r"[^\n]", by, match.group())


def masked(text):
    """The code with comments, strings and preprocessor lines as blanks."""
    return LITERAL.sub(lambda m: blank(m, "\0"), text)


def without_comments(text):
    return LITERAL.sub(lambda m: blank(m, " ") if m.group()[:2] in ("//", "/*") else m.group(),
                       text)


def other_numbers(number):
    value = float(number.replace("'", ""))
    if "." in number or "e" in number:
        return [f"{value * 1.1 if value else 0.1!r}", f"{value + 1.0!r}"]
    return [str(int(value) + 1)] + ([str(int(value) - 1)] if value > 0 else [])


class Mutant:
    """One change of a file. Its number is given by Schemata."""

    def __init__(self, path, text, at, old, new):
        self.path, self.at, self.old, self.new = path, at, old, new
        begin = text.rfind("\n", 0, at) + 1
        end = text.find("\n", at)
        self.line = text.count("\n", 0, at) + 1
        self.source = text[begin:end].strip()
        self.changed = (text[begin:at] + new + text[at + len(old):end]).strip()
        self.number = None

    def __str__(self):
        return f"{self.path}:{self.line}: {self.source}  =>  {self.changed}"

    def text(self, text):
        return text[:self.at] + self.new + text[self.at + len(self.old):]


class Site:
    def __init__(self, mutants):
        self.mutants = mutants
        self.at, self.old = mutants[0].at, mutants[0].old
        self.end = self.at + len(self.old)
        self.line = mutants[0].line
        self.why_not = None  # why it is not in the file with all mutants


def sites_of(path, text):
    code = masked(text)
    places = [(m.start(), m.group(), SWAPS[m.group()]) for m in OPERATOR.finditer(code)]
    places += [(m.start(), m.group(), other_numbers(m.group())) for m in NUMBER.finditer(code)]
    for name, other in EXTREMES.items():
        places += [(m.start(), name, (other,)) for m in re.finditer(re.escape(name), code)]
    return [Site([Mutant(path, text, at, old, new) for new in news])
            for at, old, news in sorted(places)]


def closing(code, at):
    """Where the bracket at `at` is closed."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i
    return len(code)


def logical_expression(code, at):
    """Begin and end of the && and || expression that has an operator at `at`."""
    ends = re.compile(r"[;,?]|(?<!:):(?!:)|(?<![=!<>])=(?!=)")
    depth, begin = 0, at
    while begin > 0:
        c = code[begin - 1]
        depth += (c in ")]}") - (c in "([{")
        if depth < 0 or (depth == 0 and ends.match(code, begin - 1)):
            break
        begin -= 1
    begin += re.match(r"[\s\0]*((co_)?return\b|throw\b|else\b)?[\s\0]*", code[begin:]).end()
    depth, end = 0, at
    while end < len(code):
        depth += (code[end] in "([{") - (code[end] in ")]}")
        if depth < 0 or (depth == 0 and ends.match(code, end)):
            break
        end += 1
    return begin, end


class Constant:
    """A declaration that a mutant makes non-constant: `constexpr`, or of namespace scope."""

    def __init__(self, code, match):
        self.begin = match.start()
        self.at = code.find("constexpr", match.start(), match.end())
        first = re.compile(r"[({=;\[]").search(code, match.end())
        self.function = first is not None and first.group() == "("
        at = first.start() if first else match.end()
        while at < len(code) and code[at] != ";":
            if code[at] in "([{":
                body = code[at] == "{" and self.function
                at = closing(code, at)
                if body:
                    break
            at += 1
        self.end = at
        name = re.search(r"(\w+)\s*$", code[match.end():first.start()]) if first else None
        self.name = name.group(1) if name else None
        indented = self.begin > 0 and code[self.begin - 1] not in "\n"
        self.is_global = not self.function and not indented
        self.static = match.group().startswith("static") and indented


class Read:
    """A use of a constant of namespace scope."""

    def __init__(self, at, constant):
        self.at, self.constant, self.compiles = at, constant, True


DECLARATION = re.compile(r"\b(?:(?:inline|static) )*constexpr\b(?! *\()|"
                         r"^(?:(?:inline|static) )*const\b", re.MULTILINE)


class Schemata:
    """A file with all its mutants, numbered from `first`.

    Each constant of namespace scope has a number as well, after those of the mutants. It is reached
    where the constant is read, as its mutants are evaluated before any test.
    """

    def __init__(self, path, text, first):
        self.path, self.source, self.first = path, text, first
        self.code = masked(text)
        self.sites = sites_of(path, text)
        number = first
        for site in self.sites:
            for mutant in site.mutants:
                mutant.number = number
                number += 1
        self.constants = [Constant(self.code, m) for m in DECLARATION.finditer(self.code)
                          if not self.code[:m.start()].endswith("if ")]
        self.reads = []
        for constant in self.constants:
            constant.number = number
            number += 1
        for constant in self.constants:
            if constant.is_global and constant.name:
                for m in re.finditer(rf"(?<![\w.>:]){constant.name}\b", self.code):
                    if not constant.begin <= m.start() < constant.end:
                        self.reads.append(Read(m.start(), constant))
        self.end = number

    def alive(self):
        return [site for site in self.sites if site.why_not is None]

    def constant_of(self, at):
        return next((c for c in self.constants if c.begin <= at < c.end), None)

    def sites_by_constant(self):
        """The sites that are evaluated for each constant of namespace scope, also by way of others;
        and whether all reads of it are seen."""
        own = {c: [s for s in self.alive() if c.begin <= s.at < c.end]
               for c in self.constants if c.is_global}
        seen = {c: all(r.compiles for r in self.reads if r.constant is c) for c in own}
        for c in own:  # in the order of declarations
            for read in self.reads:
                if c.begin <= read.at < c.end:
                    own[c] = own[c] + own[read.constant]
        return own, seen

    def edits(self):
        """(begin, end, replacement, what is dropped if it does not compile), in order."""
        edits = []
        expressions = {}
        uncommented = without_comments(self.source)
        for site in self.alive():
            number, old = site.mutants[0].number, site.old
            if old in ("&&", "||"):
                expressions.setdefault(logical_expression(self.code, site.at), []).append(site)
            elif old in EXTREMES:
                edits.append((site.at, site.end, f"mutants::M{old[6:8]}{{{number}}}(", [site]))
            elif old in SWAPS:
                edits.append((site.at, site.end, f"{old} mutants::Site{{{number}}} {old}", [site]))
            else:
                others = ", ".join(m.new for m in site.mutants)
                edits.append((site.at, site.end, f"mutants::Number({number}, {old}, {others})",
                              [site]))
        for (begin, end), sites in expressions.items():
            prefix = ""
            for site in sites:
                changed = uncommented[begin:site.at] + site.mutants[0].new \
                    + uncommented[site.end:end]
                prefix += f"mutants::On({site.mutants[0].number}) ? (" \
                    + changed.replace("\n", " ") + ") : "  # lines keep their numbers
            edits += [(begin, begin, f"({prefix}(", sites), (end, end, "))", sites)]
        for read in self.reads:
            constant = read.constant
            if read.compiles and any(constant.begin <= s.at < constant.end for s in self.alive()):
                edits.append((read.at, read.at + len(constant.name),
                              f"(mutants::Reach({constant.number}), {constant.name})", [read]))
        for constant in self.constants:
            inside = [s for s in self.alive() if constant.begin <= s.at < constant.end]
            if inside and constant.at >= 0:
                begin = constant.begin if constant.static else constant.at
                edits.append((begin, constant.at + len("constexpr"),
                              "" if constant.function else "const", inside))
        return sorted(edits, key=lambda e: (e[0], e[1]))

    def render(self):
        """The file with all mutants, and where in it each edit is."""
        parts, places, at, length = [], [], 0, 0
        for begin, end, new, dropped in self.edits():
            parts += [self.source[at:begin], new]
            length += begin - at
            places.append((length, length + len(new), dropped))
            length += len(new)
            at = end
        return "".join(parts + [self.source[at:]]), places

    def drop(self, rendered, places, errors, name):
        """Leaves out what the compiler's errors name. Returns whether it found something."""
        starts = [0] + [m.end() for m in re.finditer("\n", rendered)]
        pattern = re.compile(rf"^{re.escape(name)}:(\d+):(\d+): *(.*)", re.MULTILINE)
        # Of an error: its places, those of its notes, whether the mutant is valid, and if not, the
        # operator of the mutant.
        groups = []
        within = None  # where a template of this file has the error that follows
        matches = list(pattern.finditer(errors))
        for m, following in zip(matches, matches[1:] + [None]):
            place = (int(m[1]), int(m[2]))
            if re.match(" *required from", m[3]):
                within = within or place
            if "required from here" in m[3]:
                place, within = within, None
            if m[3].startswith("note:"):
                if groups:
                    groups[-1][1].append(place)
            elif m[3].startswith("error:") or "required from here" in m[3]:
                details = errors[m.end():following.start() if following else None]
                valid = "failed: not valid" not in details
                operator = None if valid else re.search(r"'operator([^'\s]+)'", details)
                groups.append(([place], [], valid, operator and operator[1]))
        # The edit itself, those of its line, those nearby.
        for reach in (None, 0, 1, 2, 4, 8, 16, 32):
            found = False
            for primary, notes, valid, operator in groups:
                for thing in self.named(starts, places, notes, True, reach) \
                        or self.named(starts, places, primary, False, reach):
                    if operator and not (isinstance(thing, Site)
                                         and operator in (m.new for m in thing.mutants)):
                        continue
                    found = True
                    if isinstance(thing, Site):
                        thing.why_not = thing.why_not or \
                            ("needs a constant" if valid else "not valid C++")
                    else:
                        thing.compiles = False
            if found:
                return True
        return False

    def named(self, starts, places, where, of_constants, reach):
        """The sites and reads of the edits at some places."""
        hit = []
        for line, column in where:
            at = starts[line - 1] + column - 1
            begin, end = at, at + 1
            if reach is not None or of_constants:
                begin = starts[max(0, line - 1 - (reach or 0))]
                end = (starts + [1 << 40] * 33)[line + (reach or 0)]
            for first, last, things in places:
                if first < end and last > begin and not (of_constants and not any(
                        isinstance(t, Site) and self.constant_of(t.at) for t in things)):
                    hit += things
        return hit
